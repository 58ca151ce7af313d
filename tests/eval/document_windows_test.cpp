#include "eval/scores/document_windows.h"

#include <fmt/format.h>

#include "tests/comm/ranks.h"
#include "tests/eval/phased_ttt.h"

namespace tg {
namespace {

using Rows = std::vector<DocumentRow>;

constexpr ChunkOptions kOptions{.chunk_size = 8, .longest_row = 20};

Rows rows_of(std::int64_t predictions) {
  return rows_of_document({.start = 100, .length = predictions + 1}, kOptions);
}

TEST(DocumentWindows, AreThoseOfItsChunksButThatTheFirstOnesAreOne) {
  EXPECT_EQ(rows_of(5), (Rows{{100, 5, 0}}));
  EXPECT_EQ(rows_of(20), (Rows{{100, 20, 0}}));
  // Chunks that end at 8 and 16, then at 21; each window has at most 20 tokens.
  EXPECT_EQ(rows_of(21), (Rows{{100, 16, 0}, {101, 20, 15}}));
  EXPECT_EQ(rows_of(35), (Rows{{100, 16, 0}, {104, 20, 12}, {112, 20, 12}, {115, 20, 17}}));
}

class DocumentWindowsOf : public testing::TestWithParam<RopeStretch> {};

// With a learning rate of 0 nothing is learned; the weights are fp64.
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

// Documents that fit in one row have the score of rows as in training, whatever their length.
TEST(DocumentWindows, HaveTheContextOfTraining) {
  const auto tokens = test::documents_of({15, 19, 12});
  auto options = test::options_of();
  options.config.ttt_lora_lr = 0;
  options.config.phased_ttt_prefix_docs = 0;
  Communicator alone;
  test::TwoLayers model(RopeStretch{.trained = 10, .longest = 18});
  const auto losses =
      test::run_ttt(tokens, options, alone, model.gpt, model.table, at::kCPU).losses;
  // 18 tokens of context, while the evaluation's rows may have 20.
  for (const auto& [start, length] : {std::pair{0, 14}, std::pair{14, 18}, std::pair{32, 11}}) {
    std::vector<std::int64_t> ids(tokens.begin() + start, tokens.begin() + start + length + 1);
    ids.resize(21);  // later tokens change no earlier loss
    const auto row = at::tensor(ids, at::kLong).unsqueeze(0);
    const auto expected =
        test::values_of(model.gpt.token_losses(row.slice(1, 0, 20), row.slice(1, 1)));
    for (int i = 0; i < length; ++i)
      EXPECT_NEAR(losses[static_cast<std::size_t>(start + i)],
                  expected[static_cast<std::size_t>(i)], 1e-11)
          << start + i;
  }
}

INSTANTIATE_TEST_SUITE_P(Rope, DocumentWindowsOf,
                         testing::Values(RopeStretch{}, RopeStretch{.trained = 10},
                                         RopeStretch{.trained = 10, .longest = 18}),
                         [](const auto& tested) {
                           return fmt::format("trained_{}_longest_{}", tested.param.trained,
                                              tested.param.longest);
                         });

}  // namespace
}  // namespace tg
