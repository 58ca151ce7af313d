#include "ops/attention/gates/scaled_heads.h"

#include "tests/ops/gradcheck.h"

namespace tg {
namespace {

constexpr std::int64_t kHeads = 2, kDim = 8;

TEST(ScaledHeads, EachHeadIsMultipliedByItsWeight) {
  const auto x = test::normal({2, 3, kHeads * kDim + 4}, 1),
             weights = test::normal({2, 3, kHeads}, 2);
  const auto out = scaled_heads(x, weights, kDim);
  ASSERT_EQ(out.sizes(), at::IntArrayRef({2, 3, kHeads * kDim}));
  for (std::int64_t head = 0; head < kHeads; ++head) {
    EXPECT_TRUE(test::is_same(out.narrow(-1, head * kDim, kDim),
                              x.narrow(-1, head * kDim, kDim) * weights.narrow(-1, head, 1)));
  }
}

TEST(ScaledHeads, GradientIsRight) {
  EXPECT_TRUE(test::gradient_is_right(
      [](const auto& x, const auto& weights) { return scaled_heads(x, weights, kDim); },
      test::normal({1, 3, kHeads * kDim + 4}, 3), test::normal({1, 3, kHeads}, 4)));
}

TEST(GatedValues, TheGateReadsTheFirstChannelsOfBothRows) {
  const auto n = test::normal({2, 3, 10}, 5), v = test::normal({2, 3, kHeads * kDim}, 6),
             weight = test::normal({kHeads, 12}, 7);
  const auto gated = gated_values(n, v, weight, kDim);
  EXPECT_TRUE(test::is_same(gated.n.rows(), n));
  for (std::int64_t head = 0; head < kHeads; ++head) {
    const auto of_n = (n.narrow(-1, 0, 6) * weight[head].narrow(0, 0, 6)).sum(-1, true),
               of_v = (v.narrow(-1, 0, 6) * weight[head].narrow(0, 6, 6)).sum(-1, true);
    const auto own = v.narrow(-1, head * kDim, kDim);
    EXPECT_TRUE(test::is_close(gated.values.narrow(-1, head * kDim, kDim),
                               2 * (of_n + of_v).sigmoid() * own, 1e-12, 1e-13));
  }
}

TEST(GatedValues, GradientIsRight) {
  EXPECT_TRUE(test::gradient_is_right(
      [](const auto& n, const auto& v, const auto& weight) {
        const auto gated = gated_values(n, v, weight, kDim);
        return gated.values * gated.n.tensor().sum();
      },
      test::normal({1, 3, 10}, 8), test::normal({1, 3, kHeads * kDim + 4}, 9),
      test::normal({kHeads, 12}, 10)));
}

}  // namespace
}  // namespace tg
