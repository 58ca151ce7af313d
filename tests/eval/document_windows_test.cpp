#include "eval/document_windows.h"

#include "tests/comm/ranks.h"
#include "tests/eval/phased_ttt.h"

namespace tg {
namespace {

using Rows = std::vector<DocumentRow>;

TEST(DocumentWindows, AreThoseOfItsChunksButThatTheFirstOnesAreOne) {
  const ChunkOptions options{.chunk_size = 8, .longest_row = 20};
  const auto rows = [&](std::int64_t predictions) {
    return rows_of_document({.start = 100, .length = predictions + 1}, options);
  };
  EXPECT_EQ(rows(5), (Rows{{100, 5, 0}}));
  EXPECT_EQ(rows(20), (Rows{{100, 20, 0}}));
  // Chunks that end at 8 and 16, then at 21: of the last 20 tokens.
  EXPECT_EQ(rows(21), (Rows{{100, 16, 0}, {101, 20, 15}}));
  EXPECT_EQ(rows(35), (Rows{{100, 16, 0}, {104, 20, 12}, {112, 20, 12}, {115, 20, 17}}));
}

// With a rate of 0 nothing learns; the weights are fp64's.
TEST(DocumentWindows, HaveTheScoreOfTestTimeTrainingWithoutLearning) {
  auto options = test::options_of();
  options.config.ttt_lora_lr = 0;
  options.config.phased_ttt_prefix_docs = 0;
  options.config.val_doc_fraction = 0.8;
  const auto tokens = test::documents_of(test::kLengths);
  const auto expected = test::run_ttt(tokens, options).score;
  const auto score_on = [&](Communicator& communicator) {
    test::TwoLayers model;
    const SplitTokens split(test::ListedTokens(tokens), std::ssize(tokens) - 1,
                            options.config.ttt_eval_seq_len, nullptr, test::kBos, at::kCPU);
    return score_documents(model.gpt, split, options.config, test::kBos, at::kCPU, communicator);
  };
  Communicator alone;
  EXPECT_NEAR(score_on(alone).loss, expected.loss, 1e-12);
  test::as_ranks(3, [&](Communicator& communicator) {
    EXPECT_NEAR(score_on(communicator).loss, expected.loss, 1e-12);
  });
}

}  // namespace
}  // namespace tg
