#include "tests/eval/continuations.h"

#include "tests/model/fixtures.h"
#include "tests/model/spec.h"

namespace tg {
namespace {

using test::losses_alone;
using test::random_continuations;
using test::scores_of;

constexpr int kVocab = 40, kPieces = 37;
constexpr double kTolerance = 1e-4;  // sums of up to 50 numbers in fp32

struct TestModel {
  explicit TestModel(const ModelConfig& config)
      : table(test::random_parameters(config, at::kFloat, 1)),
        gpt(test::plan_of(config), table, {.compute = at::kFloat}) {}
  ParameterTable table;
  Gpt gpt;
};

double last_sum(const at::Tensor& losses, std::int64_t count) {
  return -test::values_of(losses.narrow(0, losses.size(0) - count, count).sum().unsqueeze(0))[0];
}

// Returns the most likely piece after `ids`.
TokenId likeliest(const Gpt& model, const std::vector<TokenId>& ids) {
  const auto length = std::ssize(ids);
  const std::vector<std::int64_t> wide(ids.begin(), ids.end());
  const auto inputs = at::tensor(wide, at::kLong).expand({kPieces, length}).contiguous();
  const auto targets = at::arange(kPieces, at::kLong).unsqueeze(1);
  const auto losses =
      test::values_of(model.token_losses(inputs, targets, Positions{length - 1, length}));
  return static_cast<TokenId>(std::ranges::min_element(losses) - losses.begin());
}

bool is_greedy(const Gpt& model, const Continuation& row) {
  for (auto at = std::ssize(row.ids) - row.scored; at < std::ssize(row.ids); ++at) {
    if (likeliest(model, {row.ids.begin(), row.ids.begin() + at}) != *(row.ids.begin() + at))
      return false;
  }
  return true;
}

TEST(Continuations, HaveTheLogProbabilityThatEachHasAlone) {
  for (const auto& config : {test::tiny_record(), test::tiny_switches(), test::tiny_speedrun()}) {
    const TestModel model(config);
    auto rows = random_continuations(200, 50, kVocab, 1);
    rows.push_back({{7}, 0});
    const auto scores = scores_of(model.gpt, rows, 50, kPieces);
    ASSERT_EQ(scores.size(), rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].scored == 0) {
        EXPECT_EQ(scores[i].log_probability, 0);
        continue;
      }
      const auto losses =
          losses_alone(model.gpt, rows[i].ids, std::ssize(rows[i].ids) - 1, at::kCPU);
      EXPECT_NEAR(scores[i].log_probability, last_sum(losses, rows[i].scored), kTolerance) << i;
    }
  }
}

// A row is one document: a BOS at its beginning hides nothing of it.
TEST(Continuations, BehindBosScoreAsADocumentDoes) {
  const TestModel model(test::tiny_record());
  constexpr TokenId kBos = 1;
  auto rows = random_continuations(40, 50, kVocab, 5);
  for (auto& row : rows) {
    std::ranges::replace(row.ids, kBos, TokenId{2});
    row.ids.insert(row.ids.begin(), kBos);
  }
  const auto scores = scores_of(model.gpt, rows, 64, kPieces);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::vector<std::int64_t> wide(rows[i].ids.begin(), rows[i].ids.end());
    const auto ids = at::tensor(wide, at::kLong).unsqueeze(0);
    const auto inputs = ids.slice(1, 0, -1);
    const auto losses = model.gpt.token_losses(inputs, ids.slice(1, 1), {},
                                               documents_in(inputs.eq(kBos), at::kCPU));
    EXPECT_NEAR(scores[i].log_probability, last_sum(losses[0], rows[i].scored), kTolerance) << i;
  }
}

TEST(Continuations, AreGreedyWhereEveryTokenIsTheLikeliestPiece) {
  const TestModel model(test::tiny_speedrun());
  auto rows = random_continuations(60, 6, kVocab, 2);
  int greedy = 0;
  // Rows that follow the model's predictions, with some tokens changed.
  for (std::size_t i = 0; i < rows.size(); ++i) {
    auto& row = rows[i];
    row.scored = 1 + static_cast<std::int64_t>(i % 3);
    for (std::int64_t k = 0; k < row.scored; ++k) row.ids.push_back(likeliest(model.gpt, row.ids));
    if (i % 4 == 0) row.ids.back() = static_cast<TokenId>(i % kVocab);
  }
  const auto scores = scores_of(model.gpt, rows, 50, kPieces);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(scores[i].greedy, is_greedy(model.gpt, rows[i])) << i;
    greedy += scores[i].greedy ? 1 : 0;
  }
  EXPECT_GT(greedy, 30);
  EXPECT_LT(greedy, 60);
}

TEST(Continuations, LoseTheBeginningOfAContextThatIsTooLong) {
  const TestModel model(test::tiny_record());
  auto rows = random_continuations(40, 50, kVocab, 3), cut = rows;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].scored = cut[i].scored = std::min<std::int64_t>(rows[i].scored, 12);
    if (cut[i].ids.size() > 13) cut[i].ids.erase(cut[i].ids.begin(), cut[i].ids.end() - 13);
  }
  const auto scores = scores_of(model.gpt, rows, 12, kPieces);
  const auto of_cut = scores_of(model.gpt, cut, 50, kPieces);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_NEAR(scores[i].log_probability, of_cut[i].log_probability, kTolerance) << i;
  }
}

// RoPE's base grows for rows longer than 1,024 tokens.
TEST(Continuations, AreRotatedAsInRowsOfTheWholeContext) {
  const TestModel model(test::tiny_record());
  const auto rows = random_continuations(10, 40, kVocab, 4);
  const auto scores = scores_of(model.gpt, rows, 2048, kPieces);
  const auto shorter = scores_of(model.gpt, rows, 1024, kPieces);
  double difference = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].scored == 0) continue;
    const auto losses = losses_alone(model.gpt, rows[i].ids, 2048, at::kCPU);
    EXPECT_NEAR(scores[i].log_probability, last_sum(losses, rows[i].scored), kTolerance) << i;
    difference += std::abs(scores[i].log_probability - shorter[i].log_probability);
  }
  EXPECT_GT(difference, 100 * kTolerance);
}

}  // namespace
}  // namespace tg
