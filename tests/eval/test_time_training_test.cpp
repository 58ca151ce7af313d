// Compares test-time training with a plain loop over the model, in fp64,
// where another order of summation changes 1e-15.
#include <algorithm>
#include <cmath>
#include <map>

#include "tests/comm/ranks.h"
#include "tests/eval/scoring_fixture.h"

namespace tg {
namespace {

using test::Tokens;
using test::scoring::bos_documents, test::scoring::random_tokens, test::scoring::row,
    test::scoring::TestModel, test::scoring::window_losses;
using test::scoring::kBos, test::scoring::kLength, test::scoring::kPredictions,
    test::scoring::kStride, test::scoring::kVocab;

TttOptions ttt_options() {
  TttOptions options;
  options.windows = {.length = kLength, .stride = kStride};
  options.config.ttt_lr = 0.5;
  options.config.ttt_epochs = 2;
  options.config.ttt_chunk_tokens = 64;
  options.config.ttt_freeze_blocks = 2;
  options.config.ttt_batch_seqs = 3;
  return options;
}

struct TttRun {
  std::vector<double> losses;  // one for each token
  Score score;
  ParameterTable table;
};
TttRun run_ttt(const Tokens& tokens, const TttOptions& options, Communicator& communicator,
               std::optional<std::int64_t> bos_id = {}) {
  TestModel model(test::tiny_record());
  auto [losses, score] =
      test::ttt_scores(model.gpt, model.table, tokens, options, at::kCPU, communicator, bos_id);
  return {std::move(losses), score, std::move(model.table)};
}
TttRun run_ttt(const Tokens& tokens, const TttOptions& options,
               std::optional<std::int64_t> bos_id = {}) {
  Communicator alone;
  return run_ttt(tokens, options, alone, bos_id);
}

TEST(TestTimeTrainingTest, NoScoreChangesWhenLaterTokensDo) {
  test::expect_no_score_sees_later_tokens(
      random_tokens(5), kVocab, {30, 64, 65, 101, 150},
      [](const Tokens& tokens) { return run_ttt(tokens, ttt_options()).losses; });
}

// Scores the chunks and trains on them one after the other, with autograd and an SGD loop.
void expect_chunks_scored_and_trained_on(bool documents) {
  const auto tokens = random_tokens(6);
  auto options = ttt_options();
  options.config.ttt_freeze_blocks = 0;
  std::optional<std::int64_t> bos;
  if (documents) bos = kBos;
  const auto run = run_ttt(tokens, options, bos);

  TestModel model(test::tiny_record());
  const auto chunks = windows_of_chunks(kPredictions, options.windows, 64);
  std::map<std::string, at::Tensor> momentum;
  for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    const auto expected = window_losses(model.gpt, tokens, chunks[chunk], documents);
    for (const auto& window : chunks[chunk]) {
      for (auto t = window.begin + window.from; t < window.begin + window.to; ++t) {
        const auto at = static_cast<std::size_t>(t);
        EXPECT_NEAR(run.losses[at], expected[at], 1e-6) << "token " << t;  // stored in fp32
      }
    }
    // Chunks of 64, 64 and 32 tokens; the last one is not trained on. Batches of 3 rows and 1.
    if (chunk + 1 == chunks.size()) break;
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (const auto& [first, rows] : {std::pair{0, 3}, std::pair{3, 1}}) {
        const auto begin = static_cast<std::int64_t>(chunk) * 64 + first * kLength;
        const auto ids = row(tokens, begin, rows * kLength + 1);
        const auto inputs = ids.narrow(1, 0, rows * kLength).view({rows, kLength});
        model.gpt
            .loss(inputs, ids.narrow(1, 1, rows * kLength).view({rows, kLength}), {},
                  bos_documents(inputs, documents))
            .backward();
        model.gpt.collect_gradients();
        const at::NoGradGuard no_grad;
        double squares = 0;
        for (const auto& row : model.table.rows()) {
          if (row.value.grad().defined()) squares += row.value.grad().square().sum().item<double>();
        }
        const double clip = std::min(1.0, 1.0 / (std::sqrt(squares) + 1e-6));
        for (const auto& row : model.table.rows()) {
          if (!row.value.grad().defined()) continue;
          auto& buffer = momentum[row.name];
          if (!buffer.defined()) buffer = at::zeros_like(row.value);
          buffer.mul_(0.9).add_(row.value.grad() * clip);
          row.value.detach().sub_(buffer * (0.25 * (1 + std::cos(M_PI * double(chunk) / 2))));
          row.value.grad().zero_();
        }
        model.gpt.cast_weights();
      }
    }
  }
}

TEST(TestTimeTrainingTest, EveryChunkIsScoredByTheModelThatEarlierChunksTrained) {
  expect_chunks_scored_and_trained_on(/*documents=*/false);
}
TEST(TestTimeTrainingTest, OfDocumentsSeesNoOtherInScoresAndUpdates) {
  expect_chunks_scored_and_trained_on(/*documents=*/true);
}

TEST(TestTimeTrainingTest, LeavesTheFirstBlocksAloneAndTheirSlicesOfTheBanks) {
  const auto tokens = random_tokens(7);
  const TestModel fresh(test::tiny_record());
  for (const bool quirks : {false, true}) {
    auto options = ttt_options();
    options.record_quirks = quirks;
    const auto run = run_ttt(tokens, options);
    for (std::size_t i = 0; i < run.table.rows().size(); ++i) {
      const auto &row = run.table.rows()[i], &before = fresh.table.rows()[i];
      for (std::size_t j = 0; j < row.parts.size(); ++j) {
        const auto& part = row.parts[j];
        const bool first = part.name.starts_with("blocks.0.") || part.name.starts_with("blocks.1.");
        const bool bank = row.value.dim() == 3;
        EXPECT_EQ(part.value.equal(before.parts[j].value), first && !(bank && quirks)) << part.name;
      }
    }
  }
}

TEST(TestTimeTrainingTest, EndsOnAnyNumberOfRanksAndAgreesWithOneWhereTheirSharesAreEqual) {
  const auto tokens = random_tokens(8);
  auto options = ttt_options();
  options.config.ttt_batch_seqs =
      4;  // a chunk's four rows at once: two ranks have two of them each
  const auto alone = run_ttt(tokens, options);
  for (const int world : {2, 3, 6}) {  // six: more ranks than rows
    std::vector<double> scores(static_cast<std::size_t>(world));
    test::as_ranks(world, [&](Communicator& communicator) {
      scores[static_cast<std::size_t>(communicator.rank())] =
          run_ttt(tokens, options, communicator).score.loss;
    });
    for (const double score : scores) EXPECT_EQ(score, scores[0]);
    if (world != 2) continue;
    EXPECT_NEAR(scores[0], alone.score.loss, 1e-9);
  }
}

}  // namespace
}  // namespace tg
