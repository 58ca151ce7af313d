// Base training, against what a plain loop with autograd gives. In fp64, so that another order of
// summation is 1e-15.
#include "eval/base_training.h"

#include <cmath>

#include "tests/comm/ranks.h"
#include "tests/eval/legality.h"
#include "tests/eval/two_layers.h"

namespace tg {
namespace {

constexpr int kVocab = 40;
constexpr std::int64_t kLength = 8, kTokens = 110, kBos = 1;

// Chunks of 32, 32, 32 and 13 predictions, of which the last is not trained on: four sequences
// each, three at a time and one.
BaseTrainingOptions options_of(bool segments) {
  BaseTrainingOptions options{.seq_len = kLength, .bos_id = kBos};
  options.config.global_ttt_lr = 0.3;
  options.config.global_ttt_chunk_tokens = 32;
  options.config.global_ttt_batch_seqs = 3;
  options.config.global_ttt_epochs = 2;
  options.config.global_ttt_grad_clip = 0.7;
  options.config.global_ttt_respect_doc_boundaries = segments;
  return options;
}

using TestModel = test::TwoLayers;

std::vector<at::Tensor> trained(const test::Tokens& tokens, const BaseTrainingOptions& options,
                                Communicator& communicator) {
  TestModel model;
  train_base(model.gpt, model.table, tokens, options, at::kCPU, communicator);
  std::vector<at::Tensor> values;
  for (const auto& row : model.table.rows()) values.push_back(row.value.detach());
  return values;
}

// Of rows [B, T]: begin at every BOS and, counted from it, every kLength tokens.
std::optional<Documents> segments_of(const at::Tensor& inputs_bt) {
  const auto ids = test::values_of(inputs_bt);
  auto starts = at::zeros(inputs_bt.sizes(), at::kBool);
  std::int64_t begin = 0;
  for (std::int64_t t = 0; t < inputs_bt.size(1); ++t) {
    if (ids[static_cast<std::size_t>(t)] == kBos) begin = t;
    starts[0][t] = (t - begin) % kLength == 0;
  }
  return documents_in(starts, at::kCPU);
}

void step(const ParameterTable& table, std::map<std::string, at::Tensor>& momentum, double lr) {
  const at::NoGradGuard no_grad;
  double squares = 0;
  for (const auto& row : table.rows()) {
    if (row.value.grad().defined()) squares += row.value.grad().square().sum().item<double>();
  }
  const double clip = std::min(1.0, 0.7 / (std::sqrt(squares) + 1e-6));
  for (const auto& row : table.rows()) {
    if (!row.value.grad().defined()) continue;
    auto& buffer = momentum[row.name];
    if (!buffer.defined()) buffer = at::zeros_like(row.value);
    buffer.mul_(0.9).add_(row.value.grad() * clip);
    row.value.detach().sub_(buffer * lr);
    row.value.grad().zero_();
  }
}

TEST(TrainBase, TakesSequencesInRowsOfSegmentsOrEachARowWithSgdAndClipping) {
  const auto tokens = test::random_tokens(kTokens, kVocab, 3);
  ASSERT_GT(std::ranges::count(tokens, kBos), 1);
  for (const bool segments : {true, false}) {
    Communicator alone;
    const auto values = trained(tokens, options_of(segments), alone);
    TestModel model;
    std::map<std::string, at::Tensor> momentum;
    const std::vector<std::int64_t> ids(tokens.begin(), tokens.end());
    const auto all = at::tensor(ids, at::kLong);
    for (int chunk = 0; chunk < 3; ++chunk) {
      const double lr = 0.3 * (1 + std::cos(M_PI * chunk / 3)) / 2;
      for (int epoch = 0; epoch < 2; ++epoch) {
        for (const auto& [first, rows] : {std::pair{0, 3}, std::pair{3, 1}}) {
          const auto begin = chunk * 32 + first * kLength, count = rows * kLength;
          const auto length = segments ? count : kLength;
          const auto inputs = all.narrow(0, begin, count).view({-1, length});
          const auto targets = all.narrow(0, begin + 1, count).view({-1, length});
          model.gpt
              .loss(inputs, targets, {},
                    segments ? segments_of(inputs) : std::optional<Documents>())
              .backward();
          model.gpt.collect_gradients();
          step(model.table, momentum, lr);
          model.gpt.cast_weights();
        }
      }
    }
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_TRUE(test::is_close(values[i], model.table.rows()[i].value.detach(), 1e-9, 1e-10))
          << model.table.rows()[i].name << ", segments " << segments;
  }
}

// With four sequences a chunk and all of them at once, two ranks have two each; three have one or
// two, and five leave one rank without any.
TEST(TrainBase, EndsOnAnyNumberOfRanksWithOneResultAndThatOfOneRankWhereSharesAreEqual) {
  const auto tokens = test::random_tokens(kTokens, kVocab, 3);
  auto options = options_of(/*segments=*/false);
  options.config.global_ttt_batch_seqs = 4;
  Communicator alone;
  const auto expected = trained(tokens, options, alone);
  for (const int world : {2, 3, 5}) {
    std::vector<std::vector<at::Tensor>> values(static_cast<std::size_t>(world));
    test::as_ranks(world, [&](Communicator& communicator) {
      values[static_cast<std::size_t>(communicator.rank())] =
          trained(tokens, options, communicator);
    });
    for (const auto& of_rank : values) {
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(test::is_same(of_rank.at(i), values[0].at(i))) << world << " ranks";
        if (world == 2) {
          EXPECT_TRUE(test::is_close(of_rank.at(i), expected[i], 1e-9, 1e-10));
        }
      }
    }
  }
}

// One chunk is the last one.
TEST(TrainBase, ChangesNothingWithoutTokensOrAWholeChunkBeforeTheLast) {
  const TestModel fresh;
  Communicator alone;
  for (const std::int64_t count : {0, 1, 33}) {
    const auto tokens = test::random_tokens(count, kVocab, 3);
    const auto values = trained(tokens, options_of(true), alone);
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_TRUE(test::is_same(values[i], fresh.table.rows()[i].value.detach())) << count;
  }
}

TEST(BaseLr, FallsOverThePhasesChunksAsTheReferences) {
  PhasedTttConfig config;
  config.global_ttt_lr = 0.02;
  const std::vector<double> expected{0.02, 0.017071067811865476, 0.01, 0.0029289321881345253};
  for (std::size_t chunk = 0; chunk < expected.size(); ++chunk)
    EXPECT_NEAR(base_lr(config, static_cast<std::int64_t>(chunk), 5), expected[chunk], 1e-16);
  EXPECT_EQ(base_lr(config, 0, 1), 0.02);
}

TEST(BaseLr, RisesOverItsFirstChunksBeforeItFalls) {
  PhasedTttConfig config;
  config.global_ttt_lr = 0.02;
  config.global_ttt_warmup_start_lr = 0.01;
  config.global_ttt_warmup_chunks = 3;
  const std::vector<double> expected{0.01, 0.015, 0.02, 0.02, 0.01, 0};
  for (std::size_t chunk = 0; chunk < expected.size(); ++chunk)
    EXPECT_NEAR(base_lr(config, static_cast<std::int64_t>(chunk), 6), expected[chunk], 1e-16);
  config.global_ttt_warmup_chunks = 1;
  EXPECT_EQ(base_lr(config, 0, 6), 0.01);
  EXPECT_EQ(base_lr(config, 1, 6), 0.02);
}

}  // namespace
}  // namespace tg
