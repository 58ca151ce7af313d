// Compares base training with a plain loop with autograd, in fp64, where another order of summation
// changes 1e-15.
#include "eval/ttt/base_training.h"

#include <cmath>

#include "tests/comm/ranks.h"
#include "tests/eval/legality.h"
#include "tests/eval/two_layers.h"
#include "tests/model/spec.h"

namespace tg {
namespace {

constexpr int kVocab = 40;
constexpr std::int64_t kLength = 8, kTokens = 110, kBos = 1;

// Chunks of 32, 32, 32 and 13 predictions, the last of which is not trained on: four sequences
// each, in steps of three and one.
PhasedTttOptions options_of(bool segments) {
  PhasedTttOptions options{.bos_id = kBos, .seq_len = kLength};
  options.config.global_ttt_lr = 0.3;
  options.config.global_ttt_chunk_tokens = 32;
  options.config.global_ttt_batch_seqs = 3;
  options.config.global_ttt_epochs = 2;
  options.config.global_ttt_grad_clip = 0.7;
  options.config.global_ttt_respect_doc_boundaries = segments;
  return options;
}

using TestModel = test::TwoLayers;

std::vector<at::Tensor> trained(const test::Tokens& tokens, const PhasedTttOptions& options,
                                Communicator& communicator,
                                const ModelConfig& config = test::two_layers()) {
  const auto table = test::random_parameters(config, at::kDouble, 1);
  Gpt gpt(test::plan_of(config), table, {.compute = at::kDouble, .bos_id = kBos});
  gpt.cast_weights();
  train_base(gpt, table, tokens, options, at::kCPU, communicator);
  std::vector<at::Tensor> values;
  for (const auto& row : table.rows()) values.push_back(row.value.detach());
  return values;
}

// Returns the weights of each rank.
std::vector<std::vector<at::Tensor>> trained_on(int ranks, const test::Tokens& tokens,
                                                const PhasedTttOptions& options,
                                                const ModelConfig& config = test::two_layers()) {
  std::vector<std::vector<at::Tensor>> values(static_cast<std::size_t>(ranks));
  test::as_ranks(ranks, [&](Communicator& communicator) {
    values[static_cast<std::size_t>(communicator.rank())] =
        trained(tokens, options, communicator, config);
  });
  return values;
}

// Segments of rows [B, T]: they begin at every BOS and every kLength tokens after it.
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

// Four sequences per chunk, three and one per step: of three ranks one has none, one, two or all of
// them, and of five ranks some have none in any step. Segments begin at BOS and span sequences;
// smear, bigrams and gates see tokens of the previous segment.
TEST(TrainBase, EndsWithTheWeightsOfOneRankOnAnyNumberOfRanks) {
  const auto tokens = test::random_tokens(kTokens, kVocab, 3);
  Communicator alone;
  for (const auto& config : {test::two_layers(), test::tiny_record(), test::tiny_gated_smear()}) {
    for (const bool segments : {true, false}) {
      const auto options = options_of(segments);
      const auto expected = trained(tokens, options, alone, config);
      for (const int world : {2, 5}) {
        const auto values = trained_on(world, tokens, options, config);
        for (const auto& of_rank : values)
          for (std::size_t i = 0; i < expected.size(); ++i) {
            EXPECT_TRUE(test::is_same(of_rank.at(i), values[0].at(i))) << world << " ranks";
            EXPECT_TRUE(test::is_close(of_rank.at(i), expected[i], 1e-9, 1e-10))
                << world << " ranks, segments " << segments << ", tensor " << i;
          }
      }
    }
  }
}

// As in the script: of four sequences two ranks have two each, so that with batches of three they
// need one step where one rank needs two.
TEST(TrainBase, WithTheScriptsQuirksEachRankHasBatchesOfItsOwn) {
  const auto tokens = test::random_tokens(kTokens, kVocab, 3);
  auto options = options_of(/*segments=*/false);
  auto all_at_once = options;
  all_at_once.config.global_ttt_batch_seqs = 4;
  options.record_quirks = true;
  Communicator alone;
  const auto expected = trained(tokens, all_at_once, alone);
  const auto of_one = trained(tokens, options, alone);
  const auto of_two = trained_on(2, tokens, options)[0];
  double apart = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(test::is_close(of_two.at(i), expected[i], 1e-9, 1e-10)) << i;
    apart = std::max(apart, (of_one[i] - expected[i]).abs().max().item<double>());
  }
  EXPECT_GT(apart, 1e-3);
}

// A single chunk is the last one.
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
