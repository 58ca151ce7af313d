#pragma once
#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "ops/fused.h"
#include "ops/gemm/normed_input.h"

namespace tg {

// The factor on a term: a parameter, unchanged, which autograd follows; or with `gradient` a
// constant, whose gradient is added there, as for a Weight.
struct MixWeight {
  at::Tensor value{}, gradient{};

  MixWeight() = default;
  MixWeight(at::Tensor of, at::Tensor accumulated = {})  // NOLINT(google-explicit-constructor)
      : value(std::move(of)), gradient(std::move(accumulated)) {}
  bool defined() const { return value.defined(); }
  // For operations that know no `gradient`: a tensor that autograd follows.
  at::Tensor followed() const;
};

// A term of a residual sum s: s ← s + weight ⊙ tensor, or with shares s ← shares₀ ⊙ s + shares₁ ⊙
// tensor, where the tensor may be undefined: s ← shares₀ ⊙ s.
struct MixTerm {
  at::Tensor tensor{};            // [..., D]
  MixWeight weight{}, shares{};   // [], [D] or [..., 1]; [2] or [2, D]
  Fp8Scaling gradient_scaling{};  // of the FP8 GEMM whose output `tensor` is, if it is one

  bool is_plain() const { return !weight.defined() && !shares.defined(); }
};
using MixTerms = std::vector<MixTerm>;  // of one dtype; the first has no shares

struct NormOptions {
  double scale = 1;
  // Columns that the mean is over; the last ones are padding, zero everywhere. 0: all.
  std::int64_t channels = 0;
  // How the kernels pass y on, in bf16; elsewhere it is written.
  NormedForm form = NormedForm::written;
  // Scaling of the FP8 GEMM that reads y: the kernels round its rows for it, in bf16 with D a
  // multiple of 16, materialized or in_fp8.
  Fp8Scaling rounding{};
};

struct ResidualNorm {
  at::Tensor sum;  // of the first `keep` terms, else undefined
  at::Tensor x;    // of all terms, x'
  NormedInput y;   // what depends on the rms is added to y's gradient here
  at::Tensor x0;  // the last term's tensor, if it has shares, in the form that the next block takes
};

// The operations between two GEMMs of a block: residual adds, mix with the first residual, norm.
// Per row of D, x' is the sum of the terms, in their order, and
//   y = scale · x' / sqrt(mean(x'²) + 1.1920929e-07), the epsilon of rms_norm
// `keep`: also returns the sum of this many terms; 0: none.
//
// Gradients, with g = dx' + the norm's, c·r·(dy − x'·r²·mean(x'·dy)) for r = y / (c·x'): from the
// last term to the first, shares₁ ⊙ g or weight ⊙ g for the tensor, and g ← shares₀ ⊙ g; over rows
// Σ g ⊙ tensor for weight and shares₁, Σ g ⊙ s for shares₀. d(sum) is added on the way. Every block
// contributes to dx0: since each block takes the previous one's x0, each adds its term in its own
// kernel and autograd has nothing to sum.
// The kernels compute x [+ branch] [+ weight [D] ⊙ skip] [shares of that sum and x0], with the sum
// kept after the plain terms, D a multiple of 8 up to 2048 and fp32 parameters; before x0 also
// shares [2, D] of x + branch and skip. They round once per output, and the branch's gradient for
// its FP8 GEMM (empty_fp8_like()); the norm is of the rounded x'.
ResidualNorm residual_norm(const MixTerms& terms, const NormOptions& norm = {},
                           std::size_t keep = 0);

// Returns the kernel of the terms that kernels compute, for rows like x's.
Kernel choose_residual_norm(const at::Tensor& x);

// x' alone.
at::Tensor residual_sum(const MixTerms& terms);

}  // namespace tg
