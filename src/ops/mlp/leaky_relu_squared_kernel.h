#pragma once
#include "ops/mlp/mlp_hopper.h"

namespace tg::cuda {

// Kernels of ops/mlp/leaky_relu_squared.h. All tensors have `count` contiguous elements of `dtype`
// and are 16-byte aligned.
void leaky_relu_squared_forward(const void* x, void* y, std::int64_t count, float slope,
                                Dtype dtype, Stream stream);
void leaky_relu_squared_backward(const void* x, const void* dy, void* dx, std::int64_t count,
                                 float slope, Dtype dtype, Stream stream);

// leaky_relu_squared after a GEMM (ops/mlp/mlp.h), keeping the activation and a sign bit per
// element instead of h = x·upᵀ; for GPUs without mlp_hopper.h's epilogues. Matrices are [rows,
// hidden], contiguous and 16-byte aligned; `hidden` is a multiple of 8, for FP8 of 16.

// Returns the size of `signs`, like mlp_sign_bytes().
constexpr std::int64_t activation_sign_bytes(const MlpShape& shape) {
  return std::int64_t{shape.rows} * shape.hidden / 8;
}

// Overwrites h with its activation, and writes its signs unless null. row_scale [rows] scales h's
// rows; null: 1. bf16 or fp16.
void activate(const MlpShape& shape, const float* row_scale, float slope, void* h, void* signs,
              Dtype dtype, Stream stream);
// Overwrites the activation with the gradient of the unscaled h, computed from d_activation.
void activation_backward(const MlpShape& shape, const void* d_activation, const float* row_scale,
                         const void* signs, float slope, void* activation, Dtype dtype,
                         Stream stream);

// activate() of h in bf16 to e4m3: `rows`, and `transposed` like fp8_transpose().
void activate_in_fp8(const MlpShape& shape, const void* h, float slope, const Fp8Copy& rows,
                     void* transposed, void* signs, Stream stream);
// activation_backward() of d_activation in bf16: overwrites the transposed activation with the
// transposed gradient of h, and writes its rows.
void activation_backward_in_fp8(const MlpShape& shape, const void* d_activation,
                                const float* activation_scale, const void* signs, float slope,
                                const Fp8Copy& rows, void* transposed, Stream stream);

}  // namespace tg::cuda
