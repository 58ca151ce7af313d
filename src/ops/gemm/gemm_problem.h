#pragma once
#include <ATen/ATen.h>

#include <compare>
#include <cstdint>

namespace tg {

// out [m, n] = a·b, or += if `accumulates`; row-major, contiguous.
struct GemmProblem {
  std::int64_t m, n, k;
  at::ScalarType a_dtype, b_dtype, out_dtype;
  bool a_transposed = false;  // stored as [k, m], else as [m, k]
  bool b_transposed = false;  // stored as [n, k], else as [k, n]
  bool accumulates = false;
  bool fast = false;  // FP8: the tensor cores accumulate with 14 bits

  auto operator<=>(const GemmProblem&) const = default;
};

// Only the data pointers are read, so a and b may be views of the stored matrices. Scales: [] fp32
// if a and b are FP8, else undefined.
struct GemmTensors {
  at::Tensor a, b, out, scale_a{}, scale_b{};
};

}  // namespace tg
