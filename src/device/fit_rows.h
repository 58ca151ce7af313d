#pragma once
// Measures how many rows a pass can process at once.
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace tg {

struct RowsFit {
  std::int64_t rows = 0;
  std::int64_t peak = 0,
               usable = 0;  // bytes of GPU memory: of the pass and all else, and available
};

// Runs a pass over this number of rows. It must leave no state behind, apart from persistent
// allocations of its first run.
using RowsPass = std::function<void(std::int64_t rows)>;

// Returns the largest of `choices` (ascending) whose pass fits in the GPU's memory with `spare`
// bytes left. Extrapolates from two small passes, then verifies with real passes from the predicted
// choice downwards. On a CPU, returns the largest without measuring. Throws the errors of the pass,
// also if not even the smallest choice fits.
RowsFit fit_rows(const std::vector<std::int64_t>& choices, std::int64_t spare, at::Device device,
                 const RowsPass& pass);
// Measures the memory of one choice's pass.
RowsFit measure_rows(std::int64_t rows, const RowsPass& pass);

// The search of fit_rows(). `peak_of`: bytes that a choice's pass takes; nullopt: out of memory.
std::int64_t largest_fit(
    const std::vector<std::int64_t>& choices, std::int64_t usable,
    const std::function<std::optional<std::int64_t>(std::int64_t rows)>& peak_of);

// Choices for `rows` rows, ascending: the divisors of `rows`.
std::vector<std::int64_t> divisors(std::int64_t rows);
// Choices for `rows` rows, ascending: …, rows/4, rows/2, rows, rounded down.
std::vector<std::int64_t> halves(std::int64_t rows);

// Reserve for what trial passes do not show: kernels loaded later, CUDA graphs.
inline constexpr std::int64_t kSpareBytes = std::int64_t{128} << 20;

}  // namespace tg
