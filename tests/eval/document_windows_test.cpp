#include "eval/document_windows.h"

#include <fmt/format.h>

#include "tests/comm/ranks.h"
#include "tests/eval/phased_ttt.h"

namespace tg {
namespace {

using Rows = std::vector<DocumentRow>;

constexpr ChunkOptions kOptions{.chunk_size = 8, .longest_row = 20};

Rows rows_of(std::int64_t predictions, std::int64_t one_base) {
  return rows_of_document({.start = 100, .length = predictions + 1}, kOptions, one_base);
}

TEST(DocumentWindows, AreThoseOfItsChunksButThatTheFirstOnesAreOne) {
  EXPECT_EQ(rows_of(5, 1024), (Rows{{100, 5, 0, 5}}));
  EXPECT_EQ(rows_of(20, 1024), (Rows{{100, 20, 0, 20}}));
  // Chunks that end at 8 and 16, then at 21: of the last 20 tokens.
  EXPECT_EQ(rows_of(21, 1024), (Rows{{100, 16, 0, 16}, {101, 20, 15, 20}}));
  EXPECT_EQ(rows_of(35, 1024),
            (Rows{{100, 16, 0, 16}, {104, 20, 12, 20}, {112, 20, 12, 20}, {115, 20, 17, 20}}));
}

TEST(DocumentWindows, AreOfTheirChunksRowsWhereRopeDependsOnTheRow) {
  EXPECT_EQ(rows_of(21, 16), rows_of(21, 1024));
  EXPECT_EQ(rows_of(21, 12), (Rows{{100, 8, 0, 8}, {100, 16, 8, 16}, {101, 20, 15, 20}}));
  EXPECT_EQ(rows_of(11, 12), (Rows{{100, 8, 0, 8}, {100, 11, 8, 16}}));
}

class DocumentWindowsOf : public testing::TestWithParam<RopeStretch> {};

// With a rate of 0 nothing learns; the weights are fp64's.
TEST_P(DocumentWindowsOf, HaveTheScoreOfTestTimeTrainingWithoutLearning) {
  auto options = test::options_of();
  options.config.ttt_lora_lr = 0;
  options.config.phased_ttt_prefix_docs = 0;
  options.config.val_doc_fraction = 0.8;
  const auto tokens = test::documents_of(test::kLengths);
  Communicator alone;
  test::TwoLayers learning(GetParam());
  const auto expected =
      test::run_ttt(tokens, options, alone, learning.gpt, learning.table, at::kCPU).score;
  const auto score_on = [&](Communicator& communicator) {
    test::TwoLayers model(GetParam());
    const SplitTokens split(test::ListedTokens(tokens), std::ssize(tokens) - 1,
                            options.config.ttt_eval_seq_len, nullptr, test::kBos, at::kCPU);
    return score_documents(model.gpt, split, options.config, test::kBos, at::kCPU, communicator);
  };
  EXPECT_NEAR(score_on(alone).loss, expected.loss, 1e-12);
  test::as_ranks(3, [&](Communicator& communicator) {
    EXPECT_NEAR(score_on(communicator).loss, expected.loss, 1e-12);
  });
}

INSTANTIATE_TEST_SUITE_P(Rope, DocumentWindowsOf,
                         testing::Values(RopeStretch{}, RopeStretch{.trained = 10},
                                         RopeStretch{.trained = 10, .longest = 18}),
                         [](const auto& of) {
                           return fmt::format("trained_{}_longest_{}", of.param.trained,
                                              of.param.longest);
                         });

}  // namespace
}  // namespace tg
