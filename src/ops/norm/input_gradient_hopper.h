#pragma once
#include "device/launch.h"

namespace tg::cuda {

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
