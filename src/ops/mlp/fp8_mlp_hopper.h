#pragma once
#include "ops/gemm/fp8_kernel.h"
#include "ops/mlp/mlp_hopper.h"

namespace tg::cuda {

// The two GEMMs of ops/mlp/mlp.h that have an epilogue, all in e4m3, `dim` and `hidden` multiples
// of 16: mlp_up() and mlp_down_backward() that write their result as rows, fp8.copy, and transposed
// and interleaved, [F, fp8_interleaved(rows)], both divided by the copy's scale.

// Size of `signs`, as mlp_sign_bytes().
std::int64_t fp8_mlp_sign_bytes(const MlpShape& shape);

// From x [rows, D] and up [F, D].
void fp8_mlp_up(const MlpShape& shape, const void* x, const void* up, const Fp8Gemm& fp8,
                float slope, void* transposed, void* signs, Stream stream);

// From dy [rows, D], down transposed [F, D] and fp8_mlp_up()'s transposed activation, which
// `transposed` may be.
void fp8_mlp_down_backward(const MlpShape& shape, const void* dy, const void* down,
                           const Fp8Gemm& fp8, const void* activation,
                           const float* activation_scale, const void* signs, float slope,
                           void* transposed, Stream stream);

}  // namespace tg::cuda
