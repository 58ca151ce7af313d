#pragma once
#include <ATen/ATen.h>

#include <cstdint>

namespace tg {

// Rotary position embedding (Su et al. 2021) on the first `dims` channels of each head, in pairs:
// (j, j + dims/2), half-split, or interleaved (2j, 2j + 1).
struct RopeTable {
  // [T, dims/2], or tables per head [T, n, dims/2]: head h has table h mod n, and n divides the
  // number of heads.
  at::Tensor cos, sin;
  bool interleaved = false;

  bool per_head() const { return cos.dim() == 3; }
  std::int64_t tables() const { return per_head() ? cos.size(1) : 1; }
  std::int64_t half_dims() const { return cos.size(-1); }
  // The positions [first, first + count).
  RopeTable narrow(std::int64_t first, std::int64_t count) const {
    return {cos.narrow(0, first, count), sin.narrow(0, first, count), interleaved};
  }
};

struct RopeOptions {
  std::int64_t dims;              // even, at most the head size
  double base = 1e4;              // frequency k is base^(-2k/dims)
  bool bf16_frequencies = false;  // rounds frequencies to bf16 for T <= 1024, as the reference
                                  // implementation does in bf16
  std::int64_t context = 0;       // tokens that attention spans, if fewer than T; 0: T
  std::int64_t trained = 1024;    // context length beyond which the base grows; 0: never
  at::Tensor frequencies{};       // [dims/2] fp32; if defined, replaces the frequencies from `base`
  bool interleaved = false;       // RopeTable::interleaved
};

// Makes the table for positions 0 to seq_len − 1. Beyond the trained context the base grows to
// base·(context/trained)^(dims/(dims−2)) (NTK-aware scaling): 22081.79 for a doubled context, dims
// = 16 and base 1e4. Angles are in fp32; cos and sin are rounded to `dtype`.
RopeTable make_rope_table(std::int64_t seq_len, const RopeOptions& options, at::ScalarType dtype,
                          at::Device device);
// The two tables of paired heads (paired_heads.h) for `seq_len` tokens, [T, 2, dims/2]: an even
// head of token t is at position 2t, an odd one at 2t + 1.
RopeTable make_paired_rope_table(std::int64_t seq_len, const RopeOptions& options,
                                 at::ScalarType dtype, at::Device device);
double rope_base(std::int64_t context, const RopeOptions& options);

// Rotates x [B, T, heads, hd], each pair to (x1·cos + x2·sin, −x1·sin + x2·cos); the rest of the
// head is unchanged.
at::Tensor rope(const at::Tensor& x_bthd, const RopeTable& table);

}  // namespace tg
