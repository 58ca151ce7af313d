#pragma once
#include "device/launch.h"
#include "ops/gemm/fp8_kernel.h"

namespace tg::cuda {

// leaky_relu_squared after a GEMM (ops/mlp/mlp.h), keeping the activation and a sign bit per
// element instead of h = x·upᵀ; for GPUs without mlp_hopper.h's epilogues. Matrices are [rows,
// columns], contiguous and 16-byte aligned; `columns` is a multiple of 8, for FP8 of 16.
struct ActivationShape {
  std::int64_t rows;
  int columns;
};
constexpr std::int64_t activation_sign_bytes(const ActivationShape& shape) {
  return shape.rows * shape.columns / 8;
}

// Overwrites h with its activation, and writes its signs unless null. row_scale [rows] scales h's
// rows; null: 1. bf16 or fp16.
void activate(const ActivationShape& shape, const float* row_scale, float slope, void* h,
              void* signs, Dtype dtype, Stream stream);
// Overwrites the activation with the gradient of the unscaled h, from that of the activation.
void activation_backward(const ActivationShape& shape, const void* d_activation,
                         const float* row_scale, const void* signs, float slope, void* activation,
                         Dtype dtype, Stream stream);

// activate() of h in bf16 to e4m3: `rows`, and `transposed` like fp8_transpose().
void activate_in_fp8(const ActivationShape& shape, const void* h, float slope, const Fp8Copy& rows,
                     void* transposed, void* signs, Stream stream);
// activation_backward() from d_activation in bf16: overwrites the transposed activation with the
// transposed gradient of h, and writes its rows.
void activation_backward_in_fp8(const ActivationShape& shape, const void* d_activation,
                                const float* activation_scale, const void* signs, float slope,
                                const Fp8Copy& rows, void* transposed, Stream stream);

}  // namespace tg::cuda
