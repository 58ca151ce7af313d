#include "ops/mlp/mlp_epilogues.cuh"
#include "ops/mlp/mlp_hopper.h"

namespace tg::cuda {

using namespace hopper;
using Fp8 = __nv_fp8_e4m3;

std::int64_t fp8_mlp_sign_bytes(const MlpShape& shape) {
  return sign_bytes<ActivationEpilogue<Fp8>>(shape);
}

void fp8_mlp_up(const MlpShape& shape, const void* x, const void* up, const Fp8Gemm& fp8,
                float slope, void* transposed, void* signs, Stream stream) {
  const ActivationEpilogue<Fp8> epilogue{
      slope, {operand_scales(fp8), nullptr, fp8.copy}, static_cast<uint2*>(signs)};
  auto problem = mlp_up_problem(shape, x, up, transposed);
  problem.d_rows = fp8.copy.values;
  launch_gemm(problem, epilogue, "fp8_mlp_up", stream);
}

void fp8_mlp_down_backward(const MlpShape& shape, const void* dy, const void* down,
                           const Fp8Gemm& fp8, const void* activation,
                           const float* activation_scale, const void* signs, float slope,
                           void* transposed, Stream stream) {
  const ActivationGradientEpilogue<Fp8> epilogue{
      slope, {operand_scales(fp8), activation_scale, fp8.copy}, static_cast<const uint2*>(signs)};
  auto problem = mlp_down_backward_problem(shape, dy, down, activation, transposed);
  problem.d_rows = fp8.copy.values;
  launch_gemm(problem, epilogue, "fp8_mlp_down_backward", stream);
}

}  // namespace tg::cuda
