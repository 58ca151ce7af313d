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
// Computes residual = x + in·weightᵀ and row_scale = norm_scale / sqrt(mean(residual²) +
// kNormEpsilon), the latter from the unrounded residual. in [rows, in_width], weight [width,
// in_width], x and residual [rows, width], row_scale [rows]. Throws std::runtime_error if CUDA
// reports an error.
void linear_residual_norm(const LinearResidualShape& shape, const void* in, const void* weight,
                          const void* x, void* residual, float* row_scale,
                          const Workspace& workspace, Stream stream);

// Shape of a projection from `in` channels, a multiple of 64, to `out`.
struct InputGradientShape {
  int rows, in, out;
};
// Computes dx = dy·W, and Σ x·dx (with the rounded dx) over each 64 channels of a row. bf16: dy
// [rows, out], weight [out, in], x and dx [rows, in], contiguous, with addresses and row sizes that
// are multiples of 16 bytes; dots [in / 64, rows] fp32. Throws std::runtime_error if CUDA reports
// an error.
void input_gradient_with_dots(const InputGradientShape& shape, const void* dy, const void* weight,
                              const void* x, void* dx, float* dots, Stream stream);

}  // namespace tg::cuda
