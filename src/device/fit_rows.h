#pragma once
// How many rows a pass can take at once, found by measuring.
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace tg {

struct RowsFit {
  std::int64_t rows = 0;
  std::int64_t peak = 0, usable = 0;  // bytes of the GPU that its pass and all else takes, and may
};

// Runs a pass over so many rows. The pass must leave no state behind, apart from what its first run
// allocates for good.
using RowsPass = std::function<void(std::int64_t rows)>;

// Returns the largest of `choices` (ascending) whose pass fits in the GPU's memory beside `spare`
// bytes: measures two small passes, which predict the limit, and tries real passes from there
// downwards. On a CPU returns the largest without a measurement. Throws what the pass throws, also
// if not even the smallest choice fits.
RowsFit fit_rows(const std::vector<std::int64_t>& choices, std::int64_t spare, at::Device device,
                 const RowsPass& pass);
// The memory of one choice's pass.
RowsFit measure_rows(std::int64_t rows, const RowsPass& pass);

// The choice itself. `peak_of`: the bytes that a choice's pass takes, nullopt: more than there are.
std::int64_t largest_fit(
    const std::vector<std::int64_t>& choices, std::int64_t usable,
    const std::function<std::optional<std::int64_t>(std::int64_t rows)>& peak_of);

// Choices for `rows` rows, ascending: 1 … rows, those that divide it evenly.
std::vector<std::int64_t> divisors(std::int64_t rows);
// rows, a half of it, a quarter and so on.
std::vector<std::int64_t> halves(std::int64_t rows);

// What passes of a trial do not show: kernels that are loaded later, CUDA graphs.
inline constexpr std::int64_t kSpareBytes = std::int64_t{128} << 20;

}  // namespace tg
