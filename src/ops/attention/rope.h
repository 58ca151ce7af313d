#pragma once
#include <ATen/ATen.h>

#include <cstdint>

namespace tg {

// Rotary position embedding (Su et al. 2021), half-split, on the first `dims` of each head.
struct RopeTable {
  at::Tensor cos, sin;  // [T, dims/2]
};

struct RopeOptions {
  std::int64_t dims;  // even, at most the head size
  double base = 1e4;  // frequency k is base^(-2k/dims)
  bool bf16_frequencies =
      false;                    // the reference implementation's bf16 runs round them for T <= 1024
  std::int64_t context = 0;     // tokens that attention spans, of rows of more; 0: T
  std::int64_t trained = 1024;  // tokens of context beyond which the base grows; 0: never
  at::Tensor frequencies{};     // [dims/2] fp32, instead of all that the base makes; or undefined
};

// Beyond the trained context the base grows to base·(context/trained)^(dims/(dims−2)): 22081.79 for
// twice as many, dims = 16 and base 1e4. Angles in fp32, then rounded to `dtype`.
RopeTable make_rope_table(std::int64_t seq_len, const RopeOptions& options, at::ScalarType dtype,
                          at::Device device);
double rope_base(std::int64_t context, const RopeOptions& options);

// x [B, T, heads, hd] → the same: (x1·cos + x2·sin, −x1·sin + x2·cos), the rest of the head
// untouched.
at::Tensor rope(const at::Tensor& x_bthd, const RopeTable& table);

}  // namespace tg
