#pragma once
#include <ATen/ATen.h>

#include <cstdint>

#include "ops/quantize/quantize.h"

namespace tg {

// A low-rank correction of a quantised matrix: W ≈ q·s + A·B (LQER, Zhang et al. 2024), its factors
// A [rows, r] and B [r, columns] in int8 with their scales in fp16.
struct LowRank {
  // Asymmetric: A has one scale [], B one [elements / group] for each group of consecutive
  // elements. Else each has a scale a row.
  bool asymmetric = false;
  QuantizedWeight a, b;
};

struct LqerOptions {
  std::int64_t rank = 4;
  std::int64_t bits = 4;   // of a symmetric factor's element; an asymmetric A has two, B four
  bool asymmetric = true;  // where the group divides the number of B's elements
  std::int64_t group = 64;
};

// Returns the nearest matrix of rank r to E = W − q·s [rows, columns], r = min(rank, rows,
// columns): with the singular value decomposition E = U·S·Vᵀ, A = U_r·S_r and B = V_rᵀ, quantised.
// The element of greatest magnitude in each row of B is positive, so that neither device nor
// library chooses the signs. `error` in any dtype, finite; the result is on its device.
LowRank low_rank_of(const at::Tensor& error, const LqerOptions& options);

// Factors A [rows, r] and B [r, columns], quantised. Asymmetric: s = fp16(max|A|/1.5),
// clamp(round(A/s), −2, 1); of each group of B s = fp16(max/7.5), clamp(round, −8, 7). Else
// s = fp16(max|row|/levels), clamp(round, ±levels), levels = 2^(bits−1) − 1. Halves go to even.
LowRank quantize_factors(const at::Tensor& a, const at::Tensor& b, const LqerOptions& options);

// A·B in fp32, [rows, columns].
at::Tensor dequantize(const LowRank& correction);

}  // namespace tg
