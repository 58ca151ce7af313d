#pragma once
#include "device/launch.h"

namespace tg::cuda {

// out[c] = Σ over rows of partials [rows, columns] fp32, in a fixed order. The last step of kernels
// that sum over tokens: each block writes a row of partial sums, without atomics, so that results
// are deterministic.
void sum_rows(const float* partials, std::int64_t rows, std::int64_t columns, float* out,
              Stream stream);

}  // namespace tg::cuda
