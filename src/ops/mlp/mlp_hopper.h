#pragma once
#include "ops/gemm/fp8_kernel.h"

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

// mlp_up() and mlp_down_backward() in e4m3, with `dim` and `hidden` multiples of 16. They write
// their result both as rows, to fp8.copy, and transposed with interleaved rows, [F,
// fp8_interleaved(rows)], both divided by the copy's scale.

// Returns the size of `signs`, like mlp_sign_bytes().
std::int64_t fp8_mlp_sign_bytes(const MlpShape& shape);

// mlp_up() of x [rows, D] and up [F, D].
void fp8_mlp_up(const MlpShape& shape, const void* x, const void* up, const Fp8Gemm& fp8,
                float slope, void* transposed, void* signs, Stream stream);

// mlp_down_backward() of dy [rows, D], the transposed down [F, D] and fp8_mlp_up()'s transposed
// activation, which `transposed` may alias.
void fp8_mlp_down_backward(const MlpShape& shape, const void* dy, const void* down,
                           const Fp8Gemm& fp8, const void* activation,
                           const float* activation_scale, const void* signs, float slope,
                           void* transposed, Stream stream);

}  // namespace tg::cuda
