#include "ops/mlp/mlp.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/ops/tensors.h"

namespace tg {
namespace {

class Mlp : public ::testing::TestWithParam<double> {};  // the slope

TEST_P(Mlp, IsTwoGemmsWithTheActivationBetween) {
  const double slope = GetParam();
  auto x = test::normal({3, 5, 6}, 1).set_requires_grad(true);
  const auto up = test::normal({8, 6}, 2), down = test::normal({6, 8}, 3);
  const auto dy = test::normal({3, 5, 6}, 4);
  const auto up_gradient = at::ones({8, 6}, at::kDouble), down_gradient = at::ones_like(down);
  const auto y = mlp(x, {up, up_gradient}, {down, down_gradient}, slope);
  y.backward(dy);

  const auto pre = at::matmul(x.detach(), up.t());
  const auto u = at::where(pre > 0, pre, slope * pre);
  EXPECT_TRUE(test::is_close(y, at::matmul(u.square(), down.t()), 1e-13, 1e-13));
  const auto d_pre = at::matmul(dy, down) * 2 * u * at::where(pre > 0, 1.0, slope);
  EXPECT_TRUE(test::is_close(x.grad(), at::matmul(d_pre, up), 1e-13, 1e-13));
  // The gradients accumulate into the buffers' previous contents.
  EXPECT_TRUE(test::is_close(up_gradient, 1 + at::einsum("bth,bti->hi", {d_pre, x.detach()}), 1e-13,
                             1e-13));
  EXPECT_TRUE(
      test::is_close(down_gradient, 1 + at::einsum("bto,bth->oh", {dy, u.square()}), 1e-13, 1e-13));
}

TEST_P(Mlp, OfConstantsHasTheGradientOfItsInputAlone) {
  const auto up = test::normal({8, 6}, 2), down = test::normal({6, 8}, 3);
  const auto dy = test::normal({3, 5, 6}, 4);
  const auto gradient = [&](const Weight& of_up, const Weight& of_down, bool recompute) {
    const auto x = test::normal({3, 5, 6}, 1).set_requires_grad(true);
    mlp(x, of_up, of_down, GetParam(), recompute).backward(dy);
    return x.grad();
  };
  const auto expected = gradient({up, at::zeros_like(up)}, {down, at::zeros_like(down)}, false);
  for (const bool recompute : {false, true})
    EXPECT_TRUE(test::is_close(gradient({up, {}}, {down, {}}, recompute), expected, 1e-13, 1e-13));
}

INSTANTIATE_TEST_SUITE_P(Slopes, Mlp, ::testing::Values(-1.5, -1.0, -0.25, 0.0, 0.5, 1.0, 1.5),
                         [](const auto& slope) { return "Slope" + std::to_string(slope.index); });

}  // namespace
}  // namespace tg
