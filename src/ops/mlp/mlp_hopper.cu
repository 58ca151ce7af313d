#include "ops/mlp/mlp_epilogues.cuh"
#include "ops/mlp/mlp_hopper.h"

namespace tg::cuda {

using namespace hopper;

std::int64_t mlp_sign_bytes(const MlpShape& shape) {
  return sign_bytes<ActivationEpilogue<__nv_bfloat16>>(shape);
}

void mlp_up(const MlpShape& shape, const void* x, const void* up, const float* row_scale,
            float slope, void* activation, void* signs, Dtype dtype, Stream stream) {
  dispatch_half(dtype, [&](auto zero) {
    const ActivationEpilogue<decltype(zero)> epilogue{
        slope, {{row_scale, shape.rows}}, static_cast<uint2*>(signs)};
    launch_gemm(mlp_up_problem(shape, x, up, activation), epilogue, "mlp_up", stream);
  });
}

void mlp_down_backward(const MlpShape& shape, const void* dy, const void* down,
                       const float* row_scale, const void* activation, const void* signs,
                       float slope, void* gradient, Dtype dtype, Stream stream) {
  dispatch_half(dtype, [&](auto zero) {
    const ActivationGradientEpilogue<decltype(zero)> epilogue{
        slope, {{row_scale, shape.rows}}, static_cast<const uint2*>(signs)};
    launch_gemm(mlp_down_backward_problem(shape, dy, down, activation, gradient), epilogue,
                "mlp_down_backward", stream);
  });
}

}  // namespace tg::cuda
