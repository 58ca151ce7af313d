#include "ops/gemm/linear.h"

#include <gtest/gtest.h>

#include "ops/kernels.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

struct Case {
  at::Tensor x, matrix, dy;
};

Case make_case(at::ScalarType dtype) {
  return {.x = test::normal({3, 5, 6}, 1, dtype).set_requires_grad(true),
          .matrix = test::normal({4, 6}, 2, dtype),
          .dy = test::normal({3, 5, 4}, 3, dtype)};
}

TEST(Linear, AccumulatesTheMatrixsGradient) {
  const auto [x, matrix, dy] = make_case(at::kDouble);
  const auto sum = test::normal({4, 6}, 4);
  const auto before = sum.clone();
  const auto y = linear(x, {matrix, sum});
  EXPECT_TRUE(test::is_close(y, at::matmul(x, matrix.t()), 1e-14, 1e-14));
  y.backward(dy);
  EXPECT_TRUE(test::is_close(x.grad(), at::matmul(dy, matrix), 1e-14, 1e-14));
  const auto expected = before + at::einsum("bto,bti->oi", {dy, x.detach()});
  EXPECT_TRUE(test::is_close(sum, expected, 1e-13, 1e-13));
}

TEST(Linear, GivesTheInputsGradientToASoleOwner) {
  const auto [x, matrix, dy] = make_case(at::kFloat);
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(is_sole_owner(linear_backward(x.detach(), {matrix, at::zeros({4, 6})}, dy)));
}

TEST(Linear, SumsHalfPrecisionGradientsInFull) {
  const auto [x, matrix, dy] = make_case(at::kBFloat16);
  const auto sum = at::full({4, 6}, 1000.0, at::kFloat);
  linear(x, {matrix, sum}).backward(dy);
  const auto exact =
      at::einsum("bto,bti->oi", {dy.to(at::kDouble), x.detach().to(at::kDouble)}) + 1000;
  // fp32: near a thousand bf16 has steps of 4.
  EXPECT_TRUE(test::is_close(sum, exact, 1e-6, 0));
}

TEST(Linear, CastsAParameterAndLeavesItsGradientInFull) {
  const auto x = at::full({1000, 6}, 100, at::kHalf).set_requires_grad(true);
  const auto parameter = test::normal({4, 6}, 2, at::kFloat).set_requires_grad(true);
  const auto dy = at::ones({1000, 4}, at::kHalf);
  const auto y = linear(x, {parameter, {}});
  EXPECT_TRUE(at::equal(y, at::linear(x, parameter.to(at::kHalf))));
  y.backward(dy);
  EXPECT_TRUE(at::equal(x.grad(), at::matmul(dy, parameter.detach().to(at::kHalf))));
  // Larger than fp16's maximum, 65,504.
  EXPECT_TRUE(test::is_close(parameter.grad(), at::full({4, 6}, 1e5, at::kFloat), 1e-6, 0));
}

TEST(Linear, WithoutAGradientBufferAutogradReturnsTheGradient) {
  const auto [x, matrix, dy] = make_case(at::kDouble);
  const auto parameter = matrix.clone().set_requires_grad(true);
  linear(x, {parameter, {}}).backward(dy);
  EXPECT_TRUE(
      test::is_close(parameter.grad(), at::einsum("bto,bti->oi", {dy, x.detach()}), 1e-13, 1e-13));
}

TEST(Linear, OfAConstantHasTheGradientOfItsInputAlone) {
  const auto [x, matrix, dy] = make_case(at::kDouble);
  const auto y = linear(x, {matrix, {}});
  EXPECT_TRUE(test::is_close(y, at::matmul(x, matrix.t()), 1e-14, 1e-14));
  y.backward(dy);
  EXPECT_TRUE(test::is_close(x.grad(), at::matmul(dy, matrix), 1e-14, 1e-14));
  EXPECT_FALSE(linear(x.detach(), {matrix, {}}).requires_grad());
}

TEST(Linear, SavesNothingWithoutGradients) {
  const at::NoGradGuard no_grad;
  const auto [x, matrix, dy] = make_case(at::kDouble);
  EXPECT_FALSE(linear(x, {matrix, at::zeros({4, 6}, at::kDouble)}).requires_grad());
}

}  // namespace
}  // namespace tg
