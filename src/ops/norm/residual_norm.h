#pragma once
#include <ATen/ATen.h>

#include <cstdint>

#include "ops/gemm/fp8.h"

namespace tg {

// How the kernels give the normed rows y to the products that read them, in bf16.
enum class NormedRows {
  written,
  as_row_scale,  // ResidualNorm::row_scale
  in_fp8,        // y's rounding (ResidualTerms::y_scaling) alone
};

// The operations between two GEMMs of a block: residual adds, mix with the first residual, norm.
// Per row of D:
//   s  = x + branch
//   t  = s + skip_weight ⊙ skip
//   x' = m0 ⊙ t + m1 ⊙ x0
//   y  = norm_scale · x' / sqrt(mean(x'²) + 1.1920929e-07), the epsilon of rms_norm
// An undefined tensor leaves its term out. mix requires x0, skip and skip_weight require each
// other.
struct ResidualTerms {
  at::Tensor x{};                    // [..., D], like branch, skip and x0; all of one dtype
  at::Tensor branch{};               // output of attention or the MLP
  at::Tensor skip{}, skip_weight{};  // the weight [D] is a parameter, as is
  at::Tensor x0{}, mix{};            // [2, D] or [2]
  // Of D, where the last ones are padding, zero everywhere: what the mean is over. 0: all.
  std::int64_t channels = 0;
  NormedRows normed = NormedRows::written;
  // Of the FP8 products that read y and whose output is the branch: the kernels round the normed
  // rows and the branch's gradient for them (empty_fp8_like()), in bf16 with D a multiple of 16.
  Fp8Scaling y_scaling{}, branch_gradient_scaling{};
};
struct ResidualNorm {
  at::Tensor sum;   // s if keep_sum, else undefined
  at::Tensor x, y;  // x', y; x' again where y is not written, with y's gradient for autograd
  // Where it is defined, row_scale [rows of x] fp32 ⊙ x' are the normed rows: the next GEMM scales
  // the rows of its output, so that these are never written. To autograd it is a constant: who
  // computes with y gives it the gradient of row_scale ⊙ y, times row_scale; what depends on the
  // rms is added here.
  at::Tensor row_scale{};
  at::Tensor x0;  // the values of the input x0; the next block must take this tensor
};

// Gradients, with g = dx' + that of the norm, c·r·(dy − x'·r²·mean(x'·dy)) for r = y / (c·x'):
//   dt = m0 ⊙ g,  dx = dbranch = dt + dsum,
//   dskip = skip_weight ⊙ dt,  dx0 = m1 ⊙ g + dx0 of the later blocks,
//   and over rows Σ dt⊙skip, Σ g⊙t, Σ g⊙x0 for the parameters.
// Every block contributes to dx0: since each block takes the previous one's x0, each adds its term
// in its own kernel and autograd has nothing to sum. The kernels (D a multiple of 8 up to 2048,
// fp32 parameters) round once per output; the norm is that of the rounded x'.
ResidualNorm residual_norm(const ResidualTerms& terms, double norm_scale, bool keep_sum);

}  // namespace tg
