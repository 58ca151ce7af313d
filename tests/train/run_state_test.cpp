#include "train/run_state.h"

#include <map>
#include <set>

#include "checkpoint/host_snapshot.h"
#include "checkpoint/resume.h"
#include "tests/train/train_steps.h"

namespace tg {
namespace {

using Scalars = std::map<std::string, StateScalar>;
using Tensors = std::map<std::string, at::Tensor>;

// A rank with every kind of average, and its state.
class RunStateTest : public testing::Test {
 protected:
  RunStateTest() : settings(make_settings()), rank(settings, alone) {}

  static Settings make_settings() {
    auto settings = test::tiny_settings(test::tiny_switches());
    settings.averaging.lawa_enabled = true;
    settings.averaging.lawa_freq = 1;
    settings.averaging.lawa_k = 3;
    settings.averaging.swa_every = 1;
    settings.run.max_wallclock_seconds = 600;
    settings.runtime.on_nonfinite = OnNonfinite::skip;
    settings.runtime.fp8 = {.mlp = true, .qkv = true, .out = true};
    return settings;
  }

  RunState make_state() { return make_state(settings, rank); }
  RunState make_state(const Settings& run_settings, test::TrainingRank& trained) {
    return {run_settings,
            at::kCPU,
            alone,
            trained.model().plan(),
            trained.table(),
            trained.optimizer(),
            trained.model().fp8_scales(),
            trained.feeder()};
  }

  // A step and all that the trainer counts of it.
  void train(RunState& state) {
    rank.step();
    ++state.step;
    if (!state.average) state.start_average();
    state.average->update(state.step, /*lr_scale=*/0.1);
    state.clock.start();
    state.clock.step_ended(Event(compute_stream(at::kCPU)));
    state.clock.stop();
    state.clock.add_rank_0_time(state.step, 10.0 * static_cast<double>(state.step));
    // Every second step is skipped, and every second of these for an overflow.
    const bool overflow = state.step % 4 == 1;
    state.finite_watch.after_step(state.step,
                                  {.loss = std::nan(""),
                                   .grad_norm = 1,
                                   .skipped = state.step % 2 == 1,
                                   .loss_scale = overflow ? std::optional(2.0) : std::nullopt});
    state.add_validation(state.step, 5.0 / static_cast<double>(state.step));
    state.validation_ms += 3;
    state.fake_quant = state.step > 2;
  }

  static Scalars scalars_of(RunState& state) {
    Scalars scalars;
    state.for_each_scalar([&](const auto& name, StateScalar value) {
      EXPECT_TRUE(scalars.emplace(name, value).second) << name << " is visited twice";
    });
    return scalars;
  }
  static Tensors copies_of(RunState& state) {
    Tensors tensors;
    state.for_each_tensor([&](const auto& name, const at::Tensor& value) {
      EXPECT_TRUE(tensors.emplace(name, value.detach().clone()).second) << name;
    });
    return tensors;
  }
  static void expect_same(const Tensors& found, const Tensors& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (const auto& [name, value] : expected) {
      ASSERT_TRUE(found.contains(name)) << name;
      EXPECT_TRUE(at::equal(found.at(name), value)) << name;
    }
  }

  Communicator alone;
  Settings settings;
  test::TrainingRank rank;
};

TEST_F(RunStateTest, VisitsEveryParameterAndEveryTensorOfTheOptimizer) {
  auto state = make_state();
  std::map<std::string, const void*> visited;
  state.for_each_tensor(
      [&](const auto& name, const at::Tensor& value) { visited[name] = value.data_ptr(); });
  std::map<std::string, const void*> expected;
  for (const auto& row : rank.table().rows()) {
    expected["parameter." + row.name] = row.value.data_ptr();
  }
  for (const auto& named :
       {rank.optimizer().replicated_state(), rank.optimizer().sharded_state()}) {
    for (const auto& [name, value] : named) expected["optimizer." + name] = value.data_ptr();
  }
  for (const auto& [name, value] : rank.model().fp8_scales().state())
    expected["model." + name] = value.data_ptr();
  EXPECT_EQ(visited, expected);  // the state's own storage, not copies of it
}

TEST_F(RunStateTest, WhatChangesAfterASnapshotComesBackToTheBit) {
  auto state = make_state();
  train(state);
  train(state);
  const auto snapshot = state.save(/*on_host=*/true);
  const auto scalars = scalars_of(state);
  const auto tensors = copies_of(state);
  for (int i = 0; i < 5; ++i) train(state);
  const auto later = scalars_of(state);
  EXPECT_GT(later.size(), scalars.size());  // the pace knows more steps
  // Snapshots are taken between steps; SWA has begun, and LAWA goes before it; the pace keeps its
  // first steps.
  const std::set<std::string> constant = {
      "loader.micro_batches", "validations.any",   "average.any",
      "average.swa_started",  "average.swa_count", "pace.0.steps",
      "pace.0.elapsed_ms",    "pace.1.steps",      "pace.1.elapsed_ms"};
  for (const auto& [name, value] : scalars) {
    EXPECT_NE(later.at(name) != value, constant.contains(name)) << name;
  }
  state.restore(snapshot);
  EXPECT_EQ(scalars_of(state), scalars);
  expect_same(copies_of(state), tensors);
}

TEST_F(RunStateTest, TheSameStepsFollowAfterARestore) {
  auto state = make_state();
  train(state);
  const auto snapshot = state.save();
  const double first = rank.step().loss, second = rank.step().loss;
  state.restore(snapshot);
  EXPECT_EQ(rank.step().loss, first);
  EXPECT_EQ(rank.step().loss, second);
}

TEST_F(RunStateTest, EveryScalarAndTensorIsRestoredWhateverItWas) {
  class Scribble final : public StateVisitor {
   public:
    void operator()(const std::string& name, std::int64_t& value) override {
      value += name == "loader.token_offset" ? 90 : name == "loader.micro_batches" ? 0 : 1;
    }
    void operator()(const std::string&, double& value) override { value += 0.5; }
    void operator()(const std::string&, bool& value) override { value = true; }
    void operator()(const std::string&, const at::Tensor& value, Placement) override {
      value.detach().fill_(7);
    }
  };
  auto state = make_state();
  train(state);
  const auto snapshot = state.save();
  const auto scalars = scalars_of(state);
  const auto tensors = copies_of(state);
  Scribble scribble;
  {
    const at::NoGradGuard no_grad;
    state.visit(scribble);
  }
  EXPECT_NE(scalars_of(state), scalars);
  state.restore(snapshot);
  EXPECT_EQ(scalars_of(state), scalars);
  expect_same(copies_of(state), tensors);
}

// Their programs saved all GEMMs' scales as one tensor [2, products].
TEST_F(RunStateTest, OlderCheckpointsResumeWithTheirFp8Scales) {
  auto state = make_state();
  train(state);
  HostSnapshot snapshot(at::kCPU, /*rank=*/0, /*world_size=*/1);
  snapshot.copy_tensors(state);
  snapshot.copy_scalars(state);
  ResumePoint point{.checkpoint = "older", .manifest = {}};
  at::Tensor scales;
  for (const auto& [name, value] : snapshot.wait()) {
    if (!name.starts_with("model.fp8_scales.")) {
      point.tensors.emplace_back(name, value);
      continue;
    }
    const auto column = value.unsqueeze(1);
    scales = scales.defined() ? at::cat({scales, column}, 1) : column;
  }
  ASSERT_TRUE(at::equal(scales, rank.model().fp8_scales().scales()));
  point.tensors.emplace_back("model.fp8_scales", scales);
  train(state);
  ASSERT_FALSE(at::equal(scales, rank.model().fp8_scales().scales()));
  load_checkpoint(point, state);
  EXPECT_TRUE(at::equal(scales, rank.model().fp8_scales().scales()));
}

TEST_F(RunStateTest, GradientsThatTheOptimizerKeepsAreStateButTheWarmUpDoesNotRewindThem) {
  settings.runtime.fp8 = {};
  settings.runtime.record_quirks = true;
  test::TrainingRank quirks(settings, alone);
  auto state = make_state(settings, quirks);
  const std::string name = "optimizer.gradient.mtp_heads.1.weight.rank0";
  const auto before = copies_of(state);
  ASSERT_TRUE(before.contains(name));
  EXPECT_FALSE(before.at(name).any().item<bool>());
  const auto snapshot = state.save();
  quirks.step();
  const auto kept = copies_of(state).at(name);
  EXPECT_TRUE(kept.any().item<bool>());
  state.restore(snapshot);
  const auto after = copies_of(state);
  EXPECT_TRUE(at::equal(after.at(name), kept));
  const std::string weight = "parameter.qo_bank";
  EXPECT_TRUE(at::equal(after.at(weight), before.at(weight)));
}

TEST_F(RunStateTest, ASnapshotWithoutAnAverageTakesItAway) {
  auto state = make_state();
  const auto snapshot = state.save();
  train(state);
  state.restore(snapshot);
  EXPECT_FALSE(state.average);
  EXPECT_FALSE(state.validations);
  EXPECT_EQ(state.step, 0);
}

}  // namespace
}  // namespace tg
