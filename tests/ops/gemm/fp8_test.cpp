// Tests ops/gemm/fp8.h on the CPU, and linear() with an FP8 weight.
#include "tests/ops/gemm/fp8.h"

#include <limits>

#include "tests/ops/tensors.h"

namespace tg {
namespace {

Fp8Scaling scaling_of(double scale) {
  return {at::full({}, scale, at::kFloat), at::zeros({}, at::kFloat)};
}

TEST(Fp8, RoundsToFourBitsSaturatesAndKeepsTheLargestMagnitude) {
  const auto scaling = scaling_of(0.5);
  const auto x = test::tensor_of({0, 1, -1.03125, 1.0625, 300, -1000, 0.001}, {7}, at::kBFloat16);
  const auto rounded = to_fp8(x, scaling).to(at::kDouble) * 0.5;
  // 1.0625 / 0.5 is halfway between 2 and 2.25 and rounds to even, 2; 0.001 is half of 2^-9 · 0.5.
  EXPECT_TRUE(
      test::is_close(rounded, test::tensor_of({0, 1, -1, 1, 224, -224, 0.0009765625}, {7}), 0, 0));
  EXPECT_EQ(scaling.amax.item<float>(), 1000);
  to_fp8(at::ones({2}), scaling);
  EXPECT_EQ(scaling.amax.item<float>(), 1000);
}

TEST(Fp8, ATensorThatIsNotFiniteShows) {
  const auto scaling = scaling_of(1);
  to_fp8(at::full({4}, std::numeric_limits<double>::quiet_NaN()), scaling);
  EXPECT_FALSE(std::isfinite(scaling.amax.item<float>()));
}

TEST(Fp8, WhatIsCachedIsTakenOnceAndForItsTensorAlone) {
  auto scaling = scaling_of(1);
  scaling.cached = std::make_shared<Fp8Scaling::Cached>();
  const auto x = at::ones({16}, at::kBFloat16), other = at::ones({16}, at::kBFloat16);
  const auto rounded = at::full({16}, 2.0, at::kFloat).to(at::kFloat8_e4m3fn);
  const auto first_of = [](const at::Tensor& tensor) {
    return tensor.to(at::kFloat)[0].item<float>();
  };
  empty_fp8_like(x, scaling).copy_(rounded);
  EXPECT_EQ(first_of(to_fp8(x, scaling)), 2);
  EXPECT_EQ(first_of(to_fp8(x, scaling)), 1);
  empty_fp8_like(x, scaling).copy_(rounded);
  EXPECT_EQ(first_of(to_fp8(other, scaling)), 1);
  empty_fp8_like(x, scaling).copy_(rounded);
  *scaling.cached = {};
  EXPECT_EQ(first_of(to_fp8(x, scaling)), 1);
}

TEST(Fp8, AKernelWritesNoCopyThatNothingHolds) {
  auto scaling = scaling_of(1);
  const auto x = at::ones({16}, at::kBFloat16);
  EXPECT_EQ(cached_fp8_copy(x, scaling).values, nullptr);
  scaling.cached = std::make_shared<Fp8Scaling::Cached>();
  const auto copy = cached_fp8_copy(x, scaling);
  ASSERT_TRUE(scaling.cached->rounded.defined());
  EXPECT_EQ(copy.values, scaling.cached->rounded.data_ptr());
  EXPECT_EQ(copy.amax, scaling.amax.data_ptr());
}

TEST(Fp8, EveryMatrixOfABankHasItsOwnScale) {
  auto bank = test::normal({3, 16, 32}, 1, at::kBFloat16);
  bank[1].mul_(1000);
  bank[2].zero_();
  const auto rounded = empty_fp8_weights(bank);
  round_weights(bank, rounded);
  const auto back = rounded.value.to(at::kFloat) * rounded.scale.view({3, 1, 1});
  // Half of a step of 1/8 of a power of two, after the rounding to bf16.
  EXPECT_TRUE(test::is_close(back[0], bank[0], 1.0 / 14, 1e-4));
  EXPECT_TRUE(test::is_close(back[1], bank[1], 1.0 / 14, 1e-1));
  EXPECT_TRUE(at::equal(back[2], at::zeros({16, 32})));
  EXPECT_TRUE(at::equal(rounded.transposed.to(at::kFloat), rounded.value.to(at::kFloat).mT()));
}

TEST(Fp8, LinearMultipliesTheRoundedOperandsAndAccumulatesTheExactGradient) {
  const auto weight = test::fp8_weight(test::normal({32, 16}, 1, at::kBFloat16), 1.0 / 64);
  const auto x = test::normal({3, 5, 16}, 2, at::kBFloat16).set_requires_grad(true);
  const auto dy = test::normal({3, 5, 32}, 3, at::kBFloat16);
  const auto y = linear(x, weight);
  y.backward(dy);

  const auto& fp8 = weight.fp8;
  const auto dequantised = [](const at::Tensor& value, const at::Tensor& scale) {
    return value.to(at::kDouble) * scale.to(at::kDouble);
  };
  const auto w = dequantised(fp8.value, fp8.scale);
  const auto again = [&](const at::Tensor& tensor, const Fp8Scaling& scaling) {
    return dequantised(to_fp8(tensor, scaling), scaling.scale);
  };
  EXPECT_TRUE(test::is_close(y, at::matmul(again(x.detach(), fp8.input), w.t()), 1.0 / 256, 1e-2));
  EXPECT_TRUE(
      test::is_close(x.grad(), at::matmul(again(dy, fp8.output_gradient), w), 1.0 / 256, 1e-2));
  const auto exact = at::einsum("bto,bti->oi", {dy.to(at::kDouble), x.detach().to(at::kDouble)});
  EXPECT_TRUE(test::is_close(weight.gradient, exact, 1e-5, 1e-5));
  EXPECT_EQ(fp8.input.amax.item<float>(), x.abs().max().item<float>());
  EXPECT_EQ(fp8.output_gradient.amax.item<float>(), dy.abs().max().item<float>());
}

}  // namespace
}  // namespace tg
