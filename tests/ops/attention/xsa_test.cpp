#include "ops/attention/gates/xsa.h"

#include "tests/ops/gradcheck.h"

namespace tg {
namespace {

TEST(ExclusiveAttention, RemovesThePartAlongTheOwnValue) {
  constexpr std::int64_t kHeads = 6, kKvHeads = 2, kDim = 5;
  const auto y = test::normal({2, 3, kHeads, kDim}, 1), v = test::normal({2, 3, kKvHeads, kDim}, 2);
  const auto out = exclusive_attention(y, v);
  ASSERT_EQ(out.sizes(), y.sizes());
  for (std::int64_t head = 0; head < kHeads; ++head) {
    const auto own = v.select(2, head * kKvHeads / kHeads), before = y.select(2, head),
               after = out.select(2, head);
    // The result is orthogonal to the value, and the removed part is parallel to it.
    EXPECT_TRUE(test::is_close((after * own).sum(-1), at::zeros({2, 3}, at::kDouble), 0, 1e-13));
    const auto share = (before * own).sum(-1, true) / (own * own).sum(-1, true);
    EXPECT_TRUE(test::is_close(before - after, share * own, 1e-12, 1e-13));
  }
}

TEST(ExclusiveAttention, AZeroValueRemovesNothing) {
  const auto y = test::normal({1, 2, 4, 3}, 3);
  EXPECT_TRUE(test::is_same(exclusive_attention(y, at::zeros({1, 2, 2, 3}, at::kDouble)), y));
}

TEST(ExclusiveAttention, ScalingTheValueChangesNothing) {
  const auto y = test::normal({1, 4, 2, 8}, 4), v = test::normal({1, 4, 1, 8}, 5);
  EXPECT_TRUE(
      test::is_close(exclusive_attention(y, v * 1e-6), exclusive_attention(y, v), 1e-12, 1e-12));
}

TEST(ExclusiveAttention, GradientIsRight) {
  const auto y = test::normal({1, 3, 4, 3}, 6), v = test::normal({1, 3, 2, 3}, 7);
  EXPECT_TRUE(test::gradient_is_right(
      [](const auto& attended, const auto& value) { return exclusive_attention(attended, value); },
      y, v));
}

TEST(WeightedExclusiveAttention, RemovesItsShareOfThePartAlongTheOwnValue) {
  constexpr std::int64_t kHeads = 6, kKvHeads = 2;
  const auto y = test::normal({2, 3, kHeads, 5}, 8), v = test::normal({2, 3, kKvHeads, 5}, 9),
             weight = test::normal({2, 3, kHeads}, 10);
  const auto share = at::tanh(weight).unsqueeze(-1);
  EXPECT_TRUE(test::is_close(weighted_exclusive_attention(y, v, weight),
                             y - share * (y - exclusive_attention(y, v)), 1e-12, 1e-13));
  EXPECT_TRUE(test::is_same(weighted_exclusive_attention(y, v, at::zeros_like(weight)), y));
}

TEST(WeightedExclusiveAttention, DividesByNoLessThanTheLeastSquare) {
  const auto y = test::normal({1, 2, 2, 4}, 11), v = test::normal({1, 2, 2, 4}, 12) * 1e-6,
             weight = test::normal({1, 2, 2}, 13);
  const auto dots = (y * v).sum(-1, true);
  const auto expected = y - at::tanh(weight).unsqueeze(-1) * dots / 1e-8 * v;
  EXPECT_TRUE(test::is_close(weighted_exclusive_attention(y, v, weight), expected, 1e-13, 1e-14));
}

TEST(WeightedExclusiveAttention, GradientIsRight) {
  const auto y = test::normal({1, 3, 4, 3}, 14), v = test::normal({1, 3, 2, 3}, 15),
             weight = test::normal({1, 3, 4}, 16);
  EXPECT_TRUE(test::gradient_is_right(weighted_exclusive_attention, y, v, weight));
}

}  // namespace
}  // namespace tg
