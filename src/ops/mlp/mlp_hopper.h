#pragma once
#include "device/launch.h"

namespace tg::cuda {

// The two GEMMs of ops/mlp/mlp.h with fused epilogues. bf16 or fp16; all matrices row-major,
// contiguous and 16-byte aligned; `dim` and `hidden` are multiples of 8.
struct MlpShape {
  int rows, dim, hidden;  // tokens, D, F
};

// Returns the size of `signs`: one bit per element of x·upᵀ, rounded up to whole tiles, in
// accumulator order.
std::int64_t mlp_sign_bytes(const MlpShape& shape);

// Computes activation = leaky_relu_squared(x·upᵀ) [rows, F] from x [rows, D] and up [F, D]. Writes
// the signs of x·upᵀ for mlp_down_backward() to `signs`, unless null. row_scale [rows] scales x's
// rows; null: 1.
void mlp_up(const MlpShape& shape, const void* x, const void* up, const float* row_scale,
            float slope, void* activation, void* signs, Dtype dtype, Stream stream);

// Computes gradient = (dy·down) ⊙ 2u·u' [rows, F], the gradient of x·upᵀ, from dy [rows, D] and
// down [D, F]; u and u' follow from the activation and the signs. `gradient` may alias
// `activation`. row_scale: as in mlp_up(); scales the gradient's rows.
void mlp_down_backward(const MlpShape& shape, const void* dy, const void* down,
                       const float* row_scale, const void* activation, const void* signs,
                       float slope, void* gradient, Dtype dtype, Stream stream);

}  // namespace tg::cuda
