#include "train/train_step.h"

#include <map>
#include <utility>

#include "tests/model/spec.h"
#include "tests/train/train_steps.h"

namespace tg {
namespace {

// The mean loss and the norm of its gradient over `count` micro-batches, of which each begins
// `distance` tokens after the one before.
std::pair<double, double> by_hand(const Settings& settings, std::int64_t count,
                                  std::int64_t distance) {
  const auto table = test::random_parameters(settings.model, at::kFloat, 1);
  Gpt model(test::plan_of(settings.model), table, {});
  const SyntheticTokens tokens("train", static_cast<int>(settings.model.vocab_size), 1);
  const std::int64_t length = settings.run.train_batch_tokens.first() / 8;
  const std::int64_t seq_len = settings.run.train_seq_len.first();
  double loss_sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    std::vector<std::uint16_t> read(static_cast<std::size_t>(length) + 1);
    tokens.read_at(i * distance, read);
    const auto ids = at::tensor(std::vector<std::int64_t>(read.begin(), read.end()), at::kLong);
    const auto loss = model.loss(ids.slice(0, 0, -1).view({-1, seq_len}),
                                 ids.slice(0, 1).view({-1, seq_len}), {.auxiliary_losses = true});
    loss_sum += loss.item<double>();
    loss.backward();
  }
  model.collect_gradients();
  double squares = 0;
  for (const auto& row : table.rows()) {
    if (!row.value.grad().defined()) continue;
    for (const double g : test::values_of(row.value.grad())) squares += g * g;
  }
  const auto number = static_cast<double>(count);
  return {loss_sum / number, std::sqrt(squares) / number};
}

TEST(TrainStep, LossAndGradientAreMeansOverTheMicroBatchesOnAnyNumberOfRanksInBothOrders) {
  auto settings = test::tiny_settings(test::tiny_record());
  const std::int64_t length = settings.run.train_batch_tokens.first() / 8;
  for (const auto order : {LoaderOrder::stream, LoaderOrder::strided}) {
    const bool strided = order == LoaderOrder::strided;
    settings.data.loader_order = order;
    std::map<std::int64_t, std::pair<double, double>> expected;  // by the number of micro-batches
    for (int world = 1; world <= 8; ++world) {
      SCOPED_TRACE(fmt::format("{} on {} ranks", choice_name(order), world));
      const std::int64_t micro_batches = strided ? (8 + world - 1) / world * world : 8;
      if (!expected.contains(micro_batches))
        expected[micro_batches] = by_hand(settings, micro_batches, strided ? length : length + 1);
      const auto [loss, norm] = expected[micro_batches];
      test::as_ranks(world, [&, loss = loss, norm = norm](Communicator& communicator) {
        test::TrainingRank rank(settings, communicator);
        const auto metrics = rank.step();
        // fp32, in another order of summation.
        EXPECT_NEAR(metrics.loss, loss, 1e-5 * loss);
        EXPECT_NEAR(metrics.grad_norm, norm, 1e-4 * norm);
      });
    }
  }
}

TEST(TrainStep, Fp8ScalesAreThoseOfAllRanksMicroBatches) {
  auto settings = test::tiny_settings(test::tiny_speedrun());
  settings.runtime.fp8 = {.mlp = true, .qkv = true, .out = true};
  at::Tensor alone;
  double loss = 0;
  for (const int world : {1, 2, 4}) {
    test::as_ranks(world, [&](Communicator& communicator) {
      test::TrainingRank rank(settings, communicator);
      const auto metrics = rank.step();
      const auto scales = rank.model().fp8_scales().scales();
      if (world == 1) {
        alone = scales.clone();
        loss = metrics.loss;
      }
      EXPECT_TRUE(at::equal(scales, alone)) << world << " ranks";
      EXPECT_NEAR(metrics.loss, loss, 1e-5 * loss);
      rank.train_step().rehearse_update();
      EXPECT_TRUE(at::equal(scales, alone)) << "rehearsed";
      EXPECT_TRUE(std::isfinite(rank.step().loss));
    });
  }
}

TEST(TrainStep, PartsOfAMicroBatchGiveTheSameStepsOnAnyNumberOfRanksAndReadTheSameTokens) {
  for (const auto& model : {test::tiny_record(), test::tiny_switches(), test::tiny_speedrun()}) {
    auto settings = test::tiny_settings(model);
    settings.run.train_batch_tokens = 8 * 6 * 8;                   // 6 sequences a micro-batch
    const bool on_ranks = !model.dtg_enabled && model.unet_skips;  // the record's
    for (const int world : on_ranks ? std::vector{1, 3} : std::vector{1}) {
      test::as_ranks(world, [&](Communicator& communicator) {
        for (const std::int64_t parts : {2, 3}) {
          SCOPED_TRACE(fmt::format("{} parts on {} ranks", parts, world));
          test::TrainingRank once(settings, communicator), cut(settings, communicator);
          cut.set_pass_size({.parts = parts});
          for (int step = 0; step < 2; ++step) {
            const auto expected = once.step();
            test::expect_close(cut.step(), expected, step);
          }
          EXPECT_EQ(cut.feeder().state(), once.feeder().state());
        }
      });
    }
  }
}

TEST(TrainStep, PartsOfAMicroBatchHaveTheSegmentsOfTheirOwnRows) {
  auto settings = test::tiny_settings(test::tiny_record());
  settings.run.train_batch_tokens = 8 * 6 * 8;
  settings.data.bos_id = {.value = 0};  // the likeliest of the synthetic tokens
  Communicator alone;
  test::TrainingRank across(settings, alone);
  settings.data.document_attention = DocumentAttentionChoice::on;
  test::TrainingRank once(settings, alone), cut(settings, alone);
  cut.set_pass_size({.parts = 3});
  for (int step = 0; step < 2; ++step) {
    const auto expected = once.step(), found = cut.step();
    EXPECT_GT(std::abs(across.step().loss - expected.loss), 1e-3);
    test::expect_close(found, expected, step);
  }
}

TEST(TrainStep, JoinedMicroBatchesGiveTheStepsOfSeparateOnes) {
  for (const auto& model : {test::tiny_record(), test::tiny_speedrun()}) {
    auto settings = test::tiny_settings(model);
    settings.data.bos_id = {.value = 0};
    for (const bool segments : {false, true}) {
      settings.data.document_attention =
          segments ? DocumentAttentionChoice::on : DocumentAttentionChoice::off;
      for (const int world : {1, 2}) {
        test::as_ranks(world, [&](Communicator& communicator) {
          for (const std::int64_t joined : {2, 4}) {
            SCOPED_TRACE(
                fmt::format("{} joined on {} ranks, segments {}", joined, world, segments));
            test::TrainingRank once(settings, communicator), pass(settings, communicator);
            pass.set_pass_size({.joined = joined});
            for (int step = 0; step < 2; ++step) {
              const auto expected = once.step();
              test::expect_close(pass.step(), expected, step);
            }
            EXPECT_EQ(pass.feeder().state(), once.feeder().state());
          }
        });
      }
    }
  }
}

// What is run to measure memory leaves no trace but zeros.
TEST(TrainStep, RehearsalsChangeNeitherWeightsNorLaterSteps) {
  auto settings = test::tiny_settings(test::tiny_switches());
  settings.run.grad_accum_steps = {.value = 2};
  for (const bool quirks : {false, true}) {
    settings.runtime.record_quirks = quirks;
    settings.runtime.compute_dtype = quirks ? ComputeDtype::automatic : ComputeDtype::fp16;
    Communicator alone;
    test::TrainingRank rehearsed(settings, alone), rank(settings, alone);
    for (int step = 0; step < 3; ++step) {
      const auto ids = at::zeros({1, settings.run.train_seq_len.first()}, at::kLong);
      rehearsed.train_step().rehearse_passes(
          {.inputs = ids, .targets = ids, .text_bytes = 0, .batch_index = 0});
      for (const auto& row : rehearsed.table().rows()) {
        if (row.value.grad().defined()) row.value.grad().zero_();
      }
      rehearsed.train_step().rehearse_update();
      const auto expected = rank.step(), found = rehearsed.step();
      EXPECT_EQ(found.loss, expected.loss) << step;
      EXPECT_EQ(found.grad_norm, expected.grad_norm) << step;
      EXPECT_EQ(found.loss_scale, expected.loss_scale) << step;
    }
    for (const auto& row : rank.table().rows()) {
      EXPECT_TRUE(at::equal(row.value, rehearsed.table()[row.name])) << row.name;
    }
  }
}

// So do passes of stages before their captures, once the feeder is where it was.
TEST(TrainStep, RehearsedStagesChangeNoLaterStep) {
  auto settings = test::tiny_settings(test::tiny_last_record());
  settings.run.grad_accum_steps = {.value = 1};
  settings.run.train_batch_tokens = 2 * 8;
  Communicator alone;
  test::TrainingRank rehearsed(settings, alone), rank(settings, alone);
  for (int stage = 0; stage < 2; ++stage) {
    const auto position = rehearsed.feeder().state();
    for (const int other : {1, 0, 1}) {
      rehearsed.train_step().rehearse_stage({.momentum = 0.9, .stage = other});
      rehearsed.feeder().restore(position);
    }
    const StepSchedule plan{.momentum = 0.9, .stage = stage};
    const auto expected = rank.step(plan), found = rehearsed.step(plan);
    EXPECT_EQ(found.loss, expected.loss) << stage;
    EXPECT_EQ(found.grad_norm, expected.grad_norm) << stage;
  }
  for (const auto& row : rank.table().rows()) {
    EXPECT_TRUE(at::equal(row.value, rehearsed.table()[row.name])) << row.name;
  }
}

TEST(TrainStep, OneGradientThatIsNoNumberSkipsOneStepWithTheScriptsQuirksToo) {
  for (const bool quirks : {false, true}) {
    auto settings = test::tiny_settings(test::tiny_switches());
    settings.runtime.record_quirks = quirks;
    Communicator alone;
    test::TrainingRank rank(settings, alone);
    test::expect_one_step_skipped(rank, /*steps_before=*/1);
  }
}

TEST(TrainStep, TheLossScaleChangesNoWeightWhereNothingIsRoundedToHalfPrecision) {
  auto settings = test::tiny_settings(test::tiny_switches());
  Communicator alone;
  test::TrainingRank plain(settings, alone);
  settings.runtime.compute_dtype = ComputeDtype::fp16;  // the model still computes in fp32
  test::TrainingRank scaled(settings, alone);
  for (int i = 0; i < 3; ++i) {
    const auto expected = plain.step(), found = scaled.step();
    EXPECT_EQ(found.loss, expected.loss);
    EXPECT_EQ(found.grad_norm, expected.grad_norm);
    EXPECT_EQ(found.loss_scale, 65536);
    EXPECT_FALSE(expected.loss_scale);
  }
  for (const auto& [name, value] : scaled.table().named_values()) {
    EXPECT_TRUE(at::equal(value, plain.table()[name])) << name;
  }
}

TEST(TrainStep, AnOverflowHalvesTheLossScaleAndSkipsThatStep) {
  auto settings = test::tiny_settings(test::tiny_record());
  settings.runtime.compute_dtype = ComputeDtype::fp16;
  Communicator alone;
  test::TrainingRank rank(settings, alone);
  rank.step();
  const auto before = rank.table()["qo_bank"].detach().clone();
  rank.table()["qo_bank"].grad().view({-1})[7].fill_(INFINITY);
  const auto overflowed = rank.step(), next = rank.step();
  EXPECT_TRUE(overflowed.skipped);
  EXPECT_EQ(overflowed.loss_scale, 65536);
  EXPECT_FALSE(next.skipped);
  EXPECT_EQ(next.loss_scale, 32768);
  EXPECT_FALSE(at::equal(rank.table()["qo_bank"], before));
}

}  // namespace
}  // namespace tg
