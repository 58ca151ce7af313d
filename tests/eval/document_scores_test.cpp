#include "eval/scores/document_scores.h"

#include <cmath>

#include "tests/data/listed_tokens.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

constexpr std::int64_t kBos = 1;

// Two documents and the beginning of a third, after the end of a document whose BOS is before the
// split.
const std::vector<TokenId> kTokens{5, 6, kBos, 7, 8, kBos, kBos, 9, 10};

SplitTokens split_of(const test::ListedTokens& source) {
  return {source, std::ssize(kTokens) - 1, 0, nullptr, {}, at::kCPU};
}

TEST(DocumentScores, APredictionIsItsDocumentsWhoseTokensAreRead) {
  const test::ListedTokens source(kTokens);
  const auto nll = test::tensor_of({1, 2, 4, 8, 16, 32, 64, 128}, {8}, at::kFloat);
  const auto found = document_scores(split_of(source), kBos, nll);
  const std::vector<DocumentScore> expected{{.document = 0, .place = 0, .tokens = 2, .nll = 3},
                                            {.document = 1, .place = 2, .tokens = 3, .nll = 28},
                                            {.document = 2, .place = 5, .tokens = 1, .nll = 32},
                                            {.document = 3, .place = 6, .tokens = 2, .nll = 192}};
  EXPECT_EQ(found, expected);
}

TEST(DocumentScores, LeaveOutWhatWasNotScored) {
  const test::ListedTokens source(kTokens);
  const auto nll = test::tensor_of({NAN, NAN, 4, NAN, 16}, {5}, at::kFloat);
  const std::vector<DocumentScore> expected{{.document = 1, .place = 2, .tokens = 2, .nll = 20}};
  EXPECT_EQ(document_scores(split_of(source), kBos, nll), expected);
}

TEST(DocumentScores, AreALineOfJsonEach) {
  EXPECT_EQ(json_line("s", {.document = 3, .place = 7, .tokens = 2, .bytes = 4, .nll = 0.5}),
            R"({"score":"s","document":3,"place":7,"tokens":2,"bytes":4,"nll":0.5,)"
            R"("bpb":0.18033688011112042})");
  EXPECT_EQ(json_line("s", {.tokens = 1, .nll = 1}),
            R"({"score":"s","document":0,"place":0,"tokens":1,"nll":1.0})");
}

}  // namespace
}  // namespace tg
