#pragma once
#include "device/launch.h"

namespace tg::cuda {

// The two GEMMs of ops/mlp/mlp.h that have an epilogue. bf16 or fp16; all matrices row-major and
// contiguous, at addresses that are multiples of 16 bytes, `dim` and `hidden` multiples of 8.
struct MlpShape {
  int rows, dim, hidden;  // tokens, D, F
};

// Size of `signs`: one bit per element of x·upᵀ, rounded up to whole tiles, in the order of the
// accumulators.
std::int64_t mlp_sign_bytes(const MlpShape& shape);

// activation = leaky_relu_squared(x·upᵀ) [rows, F] from x [rows, D] and up [F, D]. `signs`: of
// x·upᵀ, for mlp_down_backward; null without a backward pass. row_scale [rows]: factors on x's
// rows; null: 1.
void mlp_up(const MlpShape& shape, const void* x, const void* up, const float* row_scale,
            float slope, void* activation, void* signs, Dtype dtype, Stream stream);

// gradient = (dy·down) ⊙ 2u·u' [rows, F], the gradient of x·upᵀ, from dy [rows, D] and down [D, F];
// u and u' follow from the activation and the signs. `gradient` may be `activation`. row_scale: as
// mlp_up's, which the gradient's rows are multiplied by.
void mlp_down_backward(const MlpShape& shape, const void* dy, const void* down,
                       const float* row_scale, const void* activation, const void* signs,
                       float slope, void* gradient, Dtype dtype, Stream stream);

}  // namespace tg::cuda
