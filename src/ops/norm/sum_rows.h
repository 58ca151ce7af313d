#pragma once
#include "device/launch.h"

namespace tg::cuda {

// out[c] = Σ over rows of partials [rows, columns] fp32, in a fixed order. What kernels that sum
// over tokens end with: each block leaves a row, and no atomic makes the sum depend on chance.
void sum_rows(const float* partials, std::int64_t rows, std::int64_t columns, float* out,
              Stream stream);

}  // namespace tg::cuda
