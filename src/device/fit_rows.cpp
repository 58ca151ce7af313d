#include "device/fit_rows.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/program.h"
#include "device/gpu.h"
#include "device/gpu_memory.h"

namespace tg {

namespace {

std::int64_t peak_of_pass(std::int64_t rows, std::int64_t spare, const RowsPass& pass) {
  const GpuMemoryTrial trial(spare);
  pass(rows);
  wait_for_gpu();
  return trial.peak();
}

}  // namespace

std::int64_t largest_fit(
    const std::vector<std::int64_t>& choices, std::int64_t usable,
    const std::function<std::optional<std::int64_t>(std::int64_t rows)>& peak_of) {
  assert(!choices.empty());
  const auto least = choices.front();
  if (choices.size() == 1) return least;
  struct Measured {
    std::int64_t rows, peak;
  };
  const auto peak = peak_of(least), larger_peak = peak_of(choices[1]);
  if (!peak || !larger_peak) return least;
  Measured before{least, *peak}, fitting{choices[1], *larger_peak};
  const auto predicted_to_fit = [&](std::int64_t rows) {
    const double per_row = static_cast<double>(fitting.peak - before.peak) /
                           static_cast<double>(fitting.rows - before.rows);
    return static_cast<double>(fitting.peak) + per_row * static_cast<double>(rows - fitting.rows) <=
           static_cast<double>(usable);
  };
  // Tries the largest choice that the last two measurements predict to fit, and repeats as long as
  // choices fit: work done in chunks adds memory only at the smallest sizes, so that these
  // overestimate the memory per row.
  auto failed = choices.size();  // smallest choice known not to fit
  for (bool grew = true; grew;) {
    grew = false;
    for (auto i = failed; !grew && choices[i - 1] > fitting.rows; --i) {
      const auto rows = choices[i - 1];
      if (!predicted_to_fit(rows)) continue;
      if (const auto fits = peak_of(rows)) {
        before = std::exchange(fitting, {rows, *fits});
        grew = true;
      } else {
        failed = i - 1;
      }
    }
  }
  return fitting.rows;
}

RowsFit fit_rows(const std::vector<std::int64_t>& choices, std::int64_t spare, at::Device device,
                 const RowsPass& pass) {
  if (!device.is_cuda()) return {.rows = choices.back()};
  // Loads kernels and makes persistent allocations. If this does not fit, the run cannot go on.
  peak_of_pass(choices.front(), spare, pass);
  const auto peak_of = [&](std::int64_t rows) -> std::optional<std::int64_t> {
    try {
      return peak_of_pass(rows, spare, pass);
    } catch (const std::exception& error) {
      if (out_of_memory_line(error).empty()) throw;
      return {};
    }
  };
  return measure_rows(largest_fit(choices, usable_gpu_memory() - spare, peak_of), pass);
}

RowsFit measure_rows(std::int64_t rows, const RowsPass& pass) {
  const auto peak = peak_of_pass(rows, 0, pass);
  return {rows, peak, usable_gpu_memory()};
}

std::vector<std::int64_t> divisors(std::int64_t rows) {
  std::vector<std::int64_t> found;
  for (std::int64_t i = 1; i <= rows; ++i) {
    if (rows % i == 0) found.push_back(i);
  }
  return found;
}

std::vector<std::int64_t> halves(std::int64_t rows) {
  std::vector<std::int64_t> found;
  for (; rows > 0; rows /= 2) found.push_back(rows);
  std::reverse(found.begin(), found.end());
  return found;
}

}  // namespace tg
