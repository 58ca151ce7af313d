#include "ops/attention/gates/head_gate.h"

#include "tests/ops/gradcheck.h"

namespace tg {
namespace {

constexpr std::int64_t kHeads = 4, kDim = 6, kWindow = 5;

TEST(HeadGate, MultipliesEachHeadByItsShareOfTheRange) {
  const auto y = test::normal({2, 3, kHeads, kDim}, 1), x = test::normal({2, 3, 9}, 2),
             weight = test::normal({kHeads, kWindow}, 3), bias = test::normal({kHeads}, 4);
  const auto out =
      gated_heads(y, {.x = x, .weight = weight, .bias = bias, .scale = 0.5, .range = 2});
  for (std::int64_t head = 0; head < kHeads; ++head) {
    const auto z = (x.narrow(-1, 0, kWindow) * weight[head]).sum(-1, true) + bias[head];
    EXPECT_TRUE(test::is_close(out.select(2, head), y.select(2, head) * 2 / (1 + at::exp(-z / 2)),
                               1e-13, 1e-14));
  }
}

TEST(HeadGate, GradientIsRight) {
  const auto gated = [](const at::Tensor& y, const at::Tensor& x, const at::Tensor& weight,
                        const at::Tensor& bias) {
    return gated_heads(y, {.x = x, .weight = weight, .bias = bias, .scale = 0.7, .range = 2});
  };
  EXPECT_TRUE(
      test::gradient_is_right(gated, test::normal({1, 3, kHeads, 2}, 1), test::normal({1, 3, 7}, 2),
                              test::normal({kHeads, kWindow}, 3), test::normal({kHeads}, 4)));
}

TEST(HeadGate, WithoutAGateHeadsAreAsTheyWere) {
  const auto y = test::normal({1, 2, kHeads, kDim}, 1);
  EXPECT_TRUE(gated_heads(y, {}).is_same(y));
}

}  // namespace
}  // namespace tg
