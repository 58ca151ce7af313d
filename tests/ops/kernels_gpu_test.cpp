// Tests elementwise CUDA kernels against their formula in fp64. Skipped without a GPU.
#include <gtest/gtest.h>

#include "ops/fused.h"
#include "ops/mlp/leaky_relu_squared.h"
#include "tests/ops/on_gpu.h"

namespace tg {
namespace {

struct Case {
  at::ScalarType dtype;
  double tolerance;  // relative: one rounding of the output and three earlier ones in fp32
  double smallest;   // absolute: half of the smallest subnormal
};

class KernelsGpu : public test::OnGpu<::testing::TestWithParam<Case>> {};

TEST_P(KernelsGpu, LeakyReluSquaredAndItsGradientMatchTheReferenceAtAnySize) {
  const auto [dtype, tolerance, smallest] = GetParam();
  at::manual_seed(1);
  // One element, remainders of every pack size, several blocks, several grid-stride iterations.
  for (const std::int64_t count : {1, 7, 4099, 300001, 20000003}) {
    for (const double slope : {-1.5, -1.0, -0.25, 0.0, 0.5, 1.0, 1.5}) {
      auto x = at::randn({count}, at::kFloat).to(test::kGpu, dtype).set_requires_grad(true);
      const auto dy = at::randn({count}, at::kFloat).to(test::kGpu, dtype);
      const auto y = leaky_relu_squared(x, slope);
      y.backward(dy);

      const auto exact_x = x.detach().to(at::kDouble);
      const auto factor = (exact_x > 0).to(at::kDouble) * (1 - slope * slope) + slope * slope;
      const auto exact_y = exact_x.square() * factor;
      const auto exact_dx = dy.to(at::kDouble) * 2 * exact_x * factor;
      const auto worst = [&](const at::Tensor& found, const at::Tensor& exact) {
        const auto allowed = tolerance * exact.abs() + smallest;
        return ((found.to(at::kDouble) - exact).abs() / allowed).max().item<double>();
      };
      EXPECT_LE(worst(y.detach(), exact_y), 1) << count << " elements, slope " << slope;
      EXPECT_LE(worst(x.grad(), exact_dx), 1) << count << " elements, slope " << slope;
    }
  }
}

TEST_P(KernelsGpu, FusedOffRunsTheReferenceWithTheSameResult) {
  const auto [dtype, tolerance, smallest] = GetParam();
  const auto x = at::randn({12345}, at::kFloat).to(test::kGpu, dtype);
  const auto fused = leaky_relu_squared(x, 0.5);
  set_fused(false);
  const bool off = !use_kernels(x);
  const auto reference = leaky_relu_squared(x, 0.5);
  set_fused(true);
  EXPECT_TRUE(off);
  // The reference rounds twice: u and its square.
  EXPECT_TRUE(
      at::allclose(fused.to(at::kFloat), reference.to(at::kFloat), 3 * tolerance, smallest));
}

INSTANTIATE_TEST_SUITE_P(
    Dtypes, KernelsGpu,
    ::testing::Values(Case{.dtype = at::kFloat, .tolerance = 3e-7, .smallest = 1e-44},
                      Case{.dtype = at::kBFloat16, .tolerance = 1.0 / 256, .smallest = 1e-38},
                      Case{.dtype = at::kHalf, .tolerance = 1.0 / 1024, .smallest = 3e-8}),
    [](const auto& tested) { return std::string(c10::toString(tested.param.dtype)); });

}  // namespace
}  // namespace tg
