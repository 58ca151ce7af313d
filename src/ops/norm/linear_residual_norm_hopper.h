#pragma once
#include "device/launch.h"

namespace tg::cuda {

// The kernels of ops/norm/linear_residual_norm.h, in bf16. Tensors are contiguous, at addresses and
// with rows of multiples of 16 bytes.
struct LinearResidualShape {
  int rows, in_width, width;
  int channels;  // of the width, which the mean is over
  float norm_scale;
};
// Parts of a row's sum of squares: a tile of the GEMM each.
int linear_residual_parts(int width);
// residual = x + in·weightᵀ and row_scale = norm_scale / sqrt(mean(residual²) + kNormEpsilon), from
// the residual before it is rounded. in [rows, in_width], weight [width, in_width], x and residual
// [rows, width], row_scale [rows]; squares [rows, parts] is a workspace. Throws std::runtime_error
// where CUDA reports an error.
void linear_residual_norm(const LinearResidualShape& shape, const void* in, const void* weight,
                          const void* x, void* residual, float* squares, float* row_scale,
                          Stream stream);

}  // namespace tg::cuda
