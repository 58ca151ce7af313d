#include "ops/mlp/token_gates.h"

#include "tests/ops/gradcheck.h"

namespace tg {
namespace {

TEST(TokenGates, AreTheFormula) {
  constexpr std::int64_t kHidden = 4, kGates = 3, kDim = 6;
  const auto x = test::normal({2, 3, kDim}, 1), w1 = test::normal({kHidden, kDim}, 2),
             w2 = test::normal({kGates, kHidden}, 3), b2 = test::normal({kGates}, 4);
  const auto gates = token_gates({x}, {w1, w2, b2}, 0.1);
  ASSERT_EQ(gates.sizes(), at::IntArrayRef({2, 3, kGates}));
  const auto h = at::matmul(x, w1.t());
  const auto gelu = h * (1 + at::erf(h / std::sqrt(2.0))) / 2;
  const auto expected = 0.1 * (at::matmul(gelu, w2.t()) + b2);
  EXPECT_TRUE(test::is_close(gates, expected, 1e-12, 1e-14));
  const auto gamma = at::full({}, 0.1, at::kDouble);
  EXPECT_TRUE(test::is_close(token_gates({x}, {w1, w2, b2}, gamma), expected, 1e-12, 1e-14));
}

TEST(TokenGates, GradientIsRight) {
  const auto gates = [](const at::Tensor& x, const at::Tensor& w1, const at::Tensor& w2,
                        const at::Tensor& b2, const at::Tensor& gamma) {
    return token_gates({x}, {w1, w2, b2}, gamma);
  };
  EXPECT_TRUE(test::gradient_is_right(gates, test::normal({1, 3, 5}, 1), test::normal({4, 5}, 2),
                                      test::normal({2, 4}, 3), test::normal({2}, 4),
                                      test::normal({}, 5)));
}

TEST(TokenGates, HaveTheDtypeOfTheirInput) {
  const auto x = test::normal({1, 3, 5}, 1, at::kBFloat16);
  const TokenGateWeights weights{test::normal({4, 5}, 2, at::kFloat),
                                 test::normal({2, 4}, 3, at::kFloat),
                                 test::normal({2}, 4, at::kFloat)};
  EXPECT_EQ(token_gates({x}, weights, at::ones({}, at::kFloat)).scalar_type(), at::kBFloat16);
  EXPECT_EQ(token_gates({x}, weights, 0.1).scalar_type(), at::kBFloat16);
}

TEST(TokenGates, AddTheirGradientToThatOfASharedInput) {
  const TokenGateWeights weights{test::normal({4, 8}, 2, at::kFloat),
                                 test::normal({2, 4}, 3, at::kFloat),
                                 test::normal({2}, 4, at::kFloat)};
  const auto gradient = [&](bool shares) {
    const auto leaf = test::normal({2, 3, 8}, 1, at::kBFloat16).set_requires_grad(true);
    const auto x = shares ? shared(leaf) : SharedTensor{leaf};
    const auto twice = token_gates(x, weights, 1.0) + token_gates(x, weights, 0.5);
    (twice.sum() + x.tensor.sum()).backward();
    return leaf.grad().to(at::kDouble);
  };
  const auto expected = gradient(/*shares=*/false);
  EXPECT_TRUE(test::is_close(gradient(/*shares=*/true), expected, 0x1p-7, 0x1p-6));
  EXPECT_FALSE(at::allclose(expected, at::ones_like(expected), 0.1, 0.1)) << "tests the rest only";
}

}  // namespace
}  // namespace tg
