#include "ops/mlp/leaky_relu_squared.h"

#include "tests/ops/gradcheck.h"

namespace tg {
namespace {

TEST(LeakyReluSquared, SquaresTheSlopedSide) {
  const auto x = test::tensor_of({-4, -1, -0.5, 0, 0.5, 2, 3}, {7}, at::kFloat);
  // All values are exact in binary.
  EXPECT_TRUE(test::is_same(leaky_relu_squared(x, 0.5),
                            test::tensor_of({4, 0.25, 0.0625, 0, 0.25, 4, 9}, {7}, at::kFloat)));
  EXPECT_TRUE(test::is_same(leaky_relu_squared(x, 0),
                            test::tensor_of({0, 0, 0, 0, 0.25, 4, 9}, {7}, at::kFloat)));
}

TEST(LeakyReluSquared, GradientIsTwiceTheSlopedValue) {
  for (const double slope : {-1000.0, -1.5, -1.0, -0.25, 0.0, 0.5, 1.0, 1.5, 1000.0}) {
    const auto x = test::tensor_of({-4, -1, 0, 2, 3}, {5}).set_requires_grad(true);
    leaky_relu_squared(x, slope).sum().backward();
    const auto expected =
        test::tensor_of({2 * slope * slope * -4, 2 * slope * slope * -1, 0, 4, 6}, {5});
    EXPECT_TRUE(test::is_same(x.grad(), expected)) << "slope " << slope;
    const auto f = [&](const at::Tensor& in) { return leaky_relu_squared(in, slope); };
    EXPECT_TRUE(test::gradient_is_right(f, test::normal({3, 7}, 1))) << "slope " << slope;
  }
}

}  // namespace
}  // namespace tg
