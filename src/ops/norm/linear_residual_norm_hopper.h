#pragma once
#include "device/launch.h"

namespace tg::cuda {

// Kernels of ops/norm/linear_residual_norm.h, in bf16. Tensors are contiguous; addresses and row
// sizes are multiples of 16 bytes.
struct LinearResidualShape {
  int rows, in_width, width;
  int channels;  // of `width` without padding; the mean is over them
  float norm_scale;
};
// Number of partial sums of squares per row: one per GEMM tile along N.
int linear_residual_parts(int width);
// Computes residual = x + in·weightᵀ and row_scale = norm_scale / sqrt(mean(residual²) +
// kNormEpsilon), the latter from the unrounded residual. in [rows, in_width], weight [width,
// in_width], x and residual [rows, width], row_scale [rows]; squares [rows, parts] is a workspace.
// Throws std::runtime_error if CUDA reports an error.
void linear_residual_norm(const LinearResidualShape& shape, const void* in, const void* weight,
                          const void* x, void* residual, float* squares, float* row_scale,
                          Stream stream);

}  // namespace tg::cuda
