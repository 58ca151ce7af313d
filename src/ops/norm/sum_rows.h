#pragma once
#include "device/launch.h"

namespace tg::cuda {

// Where sums of columns are written, or added; null: nowhere.
struct SumTarget {
  float* to = nullptr;
  bool adds = false;
};
struct ColumnSums {
  std::int64_t columns = 0;
  SumTarget target{};
};
inline constexpr int kMaxColumnSums = 3;
struct AllColumnSums {
  ColumnSums of[kMaxColumnSums];
};

// Σ over rows of partials [rows, all columns] fp32, in a fixed order, each part of the columns,
// from the first on, to its target. The last step of kernels that sum over tokens: each block
// writes a row of partial sums, without atomics, so that results are deterministic.
void sum_rows(const float* partials, std::int64_t rows, const AllColumnSums& sums, Stream stream);
inline void sum_rows(const float* partials, std::int64_t rows, std::int64_t columns, float* out,
                     Stream stream) {
  sum_rows(partials, rows, {{{columns, {out}}}}, stream);
}

}  // namespace tg::cuda
