#pragma once
#include <ATen/ATen.h>

#include <cstdint>

#include "ops/quantize/quantize.h"

namespace tg {

// A low-rank correction of a quantized matrix: W ≈ q·s + A·B (LQER, Zhang et al. 2024), with
// factors A [rows, r] and B [r, columns] in int8 and scales in fp16.
struct LowRank {
  // Asymmetric: A has one scale [], B one scale per group of consecutive elements [elements /
  // group]. Symmetric: one scale per row of A and of B.
  bool asymmetric = false;
  QuantizedWeight a, b;
};

struct LqerOptions {
  std::int64_t rank = 4;
  std::int64_t bits = 4;   // of symmetric factors; asymmetric: A has 2 bits, B has 4
  bool asymmetric = true;  // used only if `group` divides the number of B's elements
  std::int64_t group = 64;
};

// Quantizes the best rank-r approximation of E = W − q·s [rows, columns], r = min(rank, rows,
// columns): with the SVD E = U·S·Vᵀ, A = U_r·S_r and B = V_rᵀ. The element of largest magnitude in
// each row of B is made positive, so that signs do not depend on device or library. `error`:
// finite, any dtype; the result is on its device.
LowRank low_rank_of(const at::Tensor& error, const LqerOptions& options);

// Quantizes the factors A [rows, r] and B [r, columns]. Asymmetric: A has s = fp16(max|A|/1.5),
// clamp(round(A/s), −2, 1); each group of B has s = fp16(max/7.5), clamp(round, −8, 7). Symmetric:
// s = fp16(max|row|/levels), clamp(round, ±levels), levels = 2^(bits−1) − 1. Rounds half to even.
LowRank quantize_factors(const at::Tensor& a, const at::Tensor& b, const LqerOptions& options);

// Returns A·B in fp32, [rows, columns].
at::Tensor dequantize(const LowRank& correction);

}  // namespace tg
