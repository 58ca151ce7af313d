// Tests the kernels between the MLP's GEMMs against separate passes. Skipped without a GPU.
#include <fmt/format.h>

#include <utility>

#include "ops/gemm/fp8.h"
#include "ops/kernels.h"
#include "ops/mlp/leaky_relu_squared.h"
#include "ops/mlp/leaky_relu_squared_kernel.h"
#include "tests/ops/on_fp8_gpu.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

constexpr double kSlope = -0.5;

at::Tensor matrix(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  return test::normal({rows, columns}, seed, at::kFloat).to(test::kGpu, at::kBFloat16);
}

class ActivationGpu : public test::OnFp8Gpu<::testing::TestWithParam<std::pair<int, int>>> {
 protected:
  const std::int64_t rows_ = GetParam().first;
  const int columns_ = GetParam().second;
  const cuda::MlpShape shape_{.rows = GetParam().first, .dim = 0, .hidden = columns_};

  at::Tensor empty_signs() const {
    const auto bytes = cuda::activation_sign_bytes(shape_);
    return at::empty({bytes}, at::TensorOptions(test::kGpu).dtype(at::kByte));
  }
  // d·du²/dx where u² is the activation of h.
  static at::Tensor gradient(const at::Tensor& d, const at::Tensor& activation,
                             const at::Tensor& h) {
    const auto factor = at::where(h < 0, -2 * std::abs(kSlope), 2.0);
    return d.to(at::kFloat) * (activation.to(at::kFloat).sqrt() * factor);
  }
  static Fp8Scaling scaling(double scale) {
    const auto fp32 = at::TensorOptions(test::kGpu).dtype(at::kFloat);
    return {at::full({}, scale, fp32), at::zeros({}, fp32)};
  }
};

TEST_P(ActivationGpu, InPlaceIsTheSeparatePassOfScaledRows) {
  const auto h = matrix(rows_, columns_, 1), d = matrix(rows_, columns_, 2);
  const auto scale = test::normal({rows_}, 3, at::kFloat).abs().to(test::kGpu) + 0.5;
  const auto signs = empty_signs();
  auto activation = h.clone();
  cuda::activate(shape_, const_fp32_data(scale), kSlope, mutable_data(activation),
                 mutable_data(signs), dtype_of(h), current_stream(h));
  const auto scaled = h.to(at::kFloat) * scale.unsqueeze(1);
  const auto u = at::where(scaled > 0, scaled, scaled * kSlope);
  EXPECT_TRUE(at::equal(activation, (u * u).to(at::kBFloat16)));

  const auto expected = gradient(d, activation, h) * scale.unsqueeze(1);
  cuda::activation_backward(shape_, const_data(d), const_fp32_data(scale), const_data(signs),
                            kSlope, mutable_data(activation), dtype_of(h), current_stream(h));
  // The factors have another order, and the square root is approximate.
  EXPECT_TRUE(test::is_close(activation, expected, 1.01 / 256, 1e-6));
}

TEST_P(ActivationGpu, InFp8IsTheSeparatePassesByteByByte) {
  const auto h = matrix(rows_, columns_, 1), d = matrix(rows_, columns_, 2);
  const auto of_activation = scaling(0x1p-5), of_gradient = scaling(0x1p-4);
  const auto signs = empty_signs();
  const auto bytes = h.options().dtype(at::kFloat8_e4m3fn);
  const auto found = at::empty({rows_, columns_}, bytes),
             transposed = empty_fp8_transposed(h, rows_, columns_);
  const auto same_bytes = [](const at::Tensor& a, const at::Tensor& b) {
    return at::equal(a.view(at::kByte), b.view(at::kByte));
  };
  cuda::activate_in_fp8(shape_, const_data(h), kSlope, fp8_copy(found, of_activation),
                        mutable_data(transposed), mutable_data(signs), current_stream(h));
  const auto alone = scaling(0x1p-5);
  EXPECT_TRUE(same_bytes(found, to_fp8(leaky_relu_squared(h, kSlope), alone)));
  EXPECT_TRUE(same_bytes(transposed, fp8_transposed(found)));
  EXPECT_EQ(of_activation.amax.item<float>(), alone.amax.item<float>());

  const auto expected = gradient(d, found.to(at::kFloat) * 0x1p-5, h).to(at::kBFloat16);
  cuda::activation_backward_in_fp8(shape_, const_data(d), const_fp32_data(of_activation.scale),
                                   const_data(signs), kSlope, fp8_copy(found, of_gradient),
                                   mutable_data(transposed), current_stream(h));
  const auto other = to_fp8(expected, scaling(0x1p-4));
  const auto differing = (found.view(at::kByte) != other.view(at::kByte)).sum().item<double>();
  // The approximate square root moves few elements to the next value.
  EXPECT_LE(differing, 2 + 1e-3 * static_cast<double>(found.numel()));
  EXPECT_TRUE(test::is_close(found.to(at::kFloat), other.to(at::kFloat), 1.0 / 7, 0x1p-9));
  EXPECT_TRUE(same_bytes(transposed, fp8_transposed(found)));
  EXPECT_NEAR(of_gradient.amax.item<float>(), expected.abs().max().item<float>(),
              0.01 * of_gradient.amax.item<float>());
}

INSTANTIATE_TEST_SUITE_P(Sizes, ActivationGpu,
                         ::testing::Values(std::pair{1, 16}, std::pair{128, 128},
                                           std::pair{300, 144}, std::pair{1111, 208},
                                           std::pair{2048, 1536}),
                         [](const auto& tested) {
                           return fmt::format("{}x{}", tested.param.first, tested.param.second);
                         });

}  // namespace
}  // namespace tg
