#include "ops/gemm/batched_linear.h"

#include <limits>

#include "tests/ops/tensors.h"

namespace tg {
namespace {

BatchedWeight trained(const at::Tensor& value, const at::Tensor& gradient) {
  const auto leaf = at::zeros({1}, at::kDouble).set_requires_grad(true);
  return {.value = value, .gradient = gradient, .leaf = leaf, .row_scale = {}};
}

TEST(BatchedLinear, MultipliesEachRowByItsOwnMatrixAndWritesTheGradientOverTheLast) {
  const auto x = test::normal({3, 5, 4}, 1).set_requires_grad(true);
  const auto w = test::normal({3, 6, 4}, 2), dy = test::normal({3, 5, 6}, 3);
  const auto gradient = at::full_like(w, 9);
  const auto weight = trained(w, gradient);
  const auto y = batched_linear(x, weight, 0.5);
  EXPECT_TRUE(test::is_close(y, at::einsum("bti,boi->bto", {x, w}) * 0.5, 1e-14, 1e-14));
  y.backward(dy);
  EXPECT_TRUE(test::is_close(x.grad(), at::einsum("bto,boi->bti", {dy, w}) * 0.5, 1e-14, 1e-14));
  const auto expected = at::einsum("bto,bti->boi", {dy, x.detach()}) * 0.5;
  EXPECT_TRUE(test::is_close(gradient, expected, 1e-14, 1e-14));
  EXPECT_FALSE(weight.leaf.grad().defined());
}

TEST(BatchedLinear, DividesTheGradientByTheScaleAndMakesWhatOverflowedZero) {
  const auto x = test::normal({2, 3, 4}, 1), w = test::normal({2, 5, 4}, 2);
  const auto gradient = at::zeros_like(w), dy = test::normal({2, 3, 5}, 3);
  auto weight = trained(w, gradient);
  weight.grad_scale = 4;
  dy[0][0][2] = std::numeric_limits<double>::infinity();
  batched_linear(x, weight).backward(dy);
  auto expected = at::einsum("bti,bto->boi", {x, dy}) / 4;
  EXPECT_FALSE(expected[0][2].isfinite().any().item<bool>());
  expected[0][2] = 0;
  EXPECT_TRUE(test::is_close(gradient, expected, 1e-14, 1e-14));
}

TEST(BatchedLinear, NeedsNoGradientOfItsInput) {
  const auto x = test::normal({2, 3, 4}, 1), w = test::normal({2, 5, 4}, 2);
  const auto gradient = at::zeros_like(w), dy = test::normal({2, 3, 5}, 3);
  batched_linear(x, trained(w, gradient)).backward(dy);
  EXPECT_TRUE(test::is_close(gradient, at::einsum("bto,bti->boi", {dy, x}), 1e-14, 1e-14));
}

TEST(AddBatchedLinear, AddsToItsChannelsInPlace) {
  const auto leaf = test::normal({2, 3, 9}, 1).set_requires_grad(true);
  const auto x = test::normal({2, 3, 4}, 2).set_requires_grad(true);
  const auto scale = test::normal({5}, 3), w = test::normal({2, 5, 4}, 4);
  const auto gradient = at::zeros_like(w), dy = test::normal({2, 3, 9}, 5);
  auto weight = trained(w * scale.unsqueeze(-1), gradient);
  weight.row_scale = scale;
  const auto y = leaf.clone();
  const auto sum = add_batched_linear(y, 2, x, weight);
  EXPECT_EQ(sum.const_data_ptr(), y.const_data_ptr());

  const auto plain_w = w.clone().set_requires_grad(true);
  const auto plain_x = x.detach().clone().set_requires_grad(true);
  const auto product = at::einsum("bti,boi->bto", {plain_x, plain_w}) * scale;
  EXPECT_TRUE(test::is_close(sum, leaf + at::constant_pad_nd(product, {2, 2}), 1e-14, 1e-14));
  sum.backward(dy);
  product.backward(dy.narrow(-1, 2, 5));
  EXPECT_TRUE(test::is_close(leaf.grad(), dy, 0, 0));
  EXPECT_TRUE(test::is_close(x.grad(), plain_x.grad(), 1e-14, 1e-14));
  EXPECT_TRUE(test::is_close(gradient, plain_w.grad(), 1e-14, 1e-14));
}

TEST(BatchedLinear, InHalfPrecisionHasAGradientThatIsNotRoundedToIt) {
  const auto x = test::normal({2, 64, 4}, 1, at::kBFloat16),
             w = test::normal({2, 5, 4}, 2, at::kBFloat16);
  const auto gradient = at::zeros({2, 5, 4}), dy = test::normal({2, 64, 5}, 3, at::kBFloat16);
  batched_linear(x, trained(w, gradient)).backward(dy);
  const auto exact = at::einsum("bto,bti->boi", {dy.to(at::kDouble), x.to(at::kDouble)});
  EXPECT_TRUE(test::is_close(gradient, exact, 1e-5, 1e-5));
}

}  // namespace
}  // namespace tg
