#pragma once
#include "device/launch.h"

namespace tg::cuda {

// The input gradient of a projection from `in` channels, a multiple of 64, to `out`.
struct InputGradientShape {
  int rows, in, out;
};
// dx = dy·W, and Σ x·dx, of dx as it is rounded, over each 64 channels of a row. In bf16: dy [rows,
// out], weight [out, in], x and dx [rows, in], contiguous, at addresses and with rows of multiples
// of 16 bytes; dots [in / 64, rows] fp32. Throws std::runtime_error where CUDA reports an error.
void input_gradient_with_dots(const InputGradientShape& shape, const void* dy, const void* weight,
                              const void* x, void* dx, float* dots, Stream stream);

}  // namespace tg::cuda
