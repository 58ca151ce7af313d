#pragma once
#include "device/launch.h"

namespace tg::cuda {

// Destination of column sums, which are written or added (`adds`); null: discarded.
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
  ColumnSums parts[kMaxColumnSums];

  std::int64_t columns() const {
    std::int64_t all = 0;
    for (const auto& part : parts) all += part.columns;
    return all;
  }
};

// Sums partials [rows, all columns] fp32 over rows, in a fixed order, and writes each consecutive
// part of the columns to its target. The last step of kernels that sum over tokens: each CTA writes
// a row of partial sums, without atomics, so that results are deterministic.
void sum_rows(const float* partials, std::int64_t rows, const AllColumnSums& sums, Stream stream);
inline void sum_rows(const float* partials, std::int64_t rows, std::int64_t columns, float* out,
                     Stream stream) {
  sum_rows(partials, rows, {{{columns, {out}}}}, stream);
}

}  // namespace tg::cuda
