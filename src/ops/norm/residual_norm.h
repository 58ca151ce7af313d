#pragma once
#include <ATen/ATen.h>

namespace tg {

// What stands between two products of a block: the residual's sums, the mix with the first
// residual, and the norm. Per row of D:
//   s  = x + branch_scale ⊙ branch
//   t  = s + skip_weight ⊙ skip
//   x' = m0 ⊙ t + m1 ⊙ x0
//   y  = norm_scale · x' / sqrt(mean(x'²) + 1.1920929e-07), as rms_norm has it
// An undefined tensor leaves its term out; branch_scale is 1 then. x0 comes with mix, skip with
// skip_weight.
struct ResidualTerms {
  at::Tensor x{};             // [..., D], and so branch, skip and x0, all of one type
  at::Tensor branch{};        // what attention or the MLP adds
  at::Tensor branch_scale{};  // [D], a parameter like skip_weight [D] and mix [2, D] or [2]
  at::Tensor skip{}, skip_weight{};
  at::Tensor x0{}, mix{};
};
struct ResidualNorm {
  at::Tensor sum;   // s where asked for, else undefined
  at::Tensor x, y;  // x', y
  at::Tensor x0;    // the same numbers; the next block takes this one
};

// Gradients, with g = dx' + that of the norm, c·r·(dy − x'·r²·mean(x'·dy)) for r = y / (c·x'):
//   dt = m0 ⊙ g,  ds = dt + dsum,  dx = ds,  dbranch = branch_scale ⊙ ds,
//   dskip = skip_weight ⊙ dt,  dx0 = m1 ⊙ g + what the blocks after this one left in dx0,
//   and over rows Σ ds⊙branch, Σ dt⊙skip, Σ g⊙t, Σ g⊙x0 for the parameters.
// Every block adds to dx0: since x0 is handed from block to block, each adds in its own pass and
// autograd has nothing to sum. The kernels (D a multiple of 8 up to 2048, fp32 parameters) round
// once at each output; the statistics are those of the rounded x'.
ResidualNorm residual_norm(const ResidualTerms& terms, double norm_scale, bool keep_sum);

}  // namespace tg
