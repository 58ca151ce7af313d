#pragma once
#include "ops/gemm/fp8_kernel.h"
#include "ops/mlp/mlp_hopper.h"

namespace tg::cuda {

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
