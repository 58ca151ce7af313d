#pragma once
#include <ATen/ATen.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "ops/fused.h"
#include "ops/gemm/normed_input.h"
#include "ops/shared_gradient.h"

namespace tg {

// A column of a shared tensor [..., columns].
struct SharedColumn {
  GradientSumPtr gradient{};
  std::int64_t column = 0;
};

// Coefficients of a term: a tensor that autograd differentiates, also as a column of a shared
// tensor, or, with `gradient`, a constant whose gradient accumulates there, as in Weight.
struct MixWeight {
  at::Tensor value{}, gradient{};
  SharedColumn shared{};

  MixWeight() = default;
  MixWeight(at::Tensor tensor, at::Tensor sums = {})  // NOLINT(google-explicit-constructor)
      : value(std::move(tensor)), gradient(std::move(sums)) {}
  // Column `i` of x.
  MixWeight(const SharedTensor& x, std::int64_t i)
      : value(x.tensor.narrow(-1, i, 1)), shared{x.gradient, i} {}
  bool defined() const { return value.defined(); }
  // Returns a tensor that autograd differentiates, for operations that do not handle `gradient`.
  at::Tensor differentiable() const;
};

// A term of a residual sum s: s ← s + weight ⊙ tensor; or, with `blend`, s ← blend₀ ⊙ s + blend₁
// ⊙ tensor (s ← blend₀ ⊙ s if the tensor is undefined).
struct MixTerm {
  at::Tensor tensor{};            // [..., D]
  MixWeight weight{}, blend{};    // [], [D] or [..., 1]; [2] or [2, D]
  Fp8Scaling gradient_scaling{};  // of the FP8 GEMM whose output `tensor` is, if any
  GradientSumPtr shared{};        // of a SharedTensor

  bool is_plain() const { return !weight.defined() && !blend.defined(); }
};
using MixTerms = std::vector<MixTerm>;  // of one dtype; the first has no blend

struct NormOptions {
  double scale = 1;
  // Number of channels of D without padding, for the mean; the others are zero. 0: all.
  std::int64_t channels = 0;
  // Form of y from the bf16 kernels; otherwise y is materialized.
  NormedForm form = NormedForm::materialized;
  // Scaling for the FP8 GEMM that reads y: the bf16 kernels also quantize y. Requires D a multiple
  // of 16 and form `materialized` or `quantized`.
  Fp8Scaling rounding{};
};

struct ResidualNorm {
  at::Tensor sum;  // of the first `keep` terms; undefined if keep is 0
  at::Tensor x;    // x', the sum of all terms
  NormedInput y;   // normalized x'; its gradient through the rms is computed here
  at::Tensor x0;   // alias of the last term's tensor, if it has blend; input of the next block
};

// Computes the operations between two GEMMs of a block: residual adds, mix with the first residual,
// RMSNorm. Per row of D, x' is the sum of the terms, in order, and
//   y = scale · x' / sqrt(mean(x'²) + 1.1920929e-07), the epsilon of rms_norm
// `keep`: also returns the sum of this many first terms; 0: none.
//
// Gradients: let c = scale, r = 1/rms(x') and g = dx' + c·r·(dy − x'·r²·mean(x'·dy)). From the last
// term to the first, the tensor gets blend₁ ⊙ g or weight ⊙ g, then g ← blend₀ ⊙ g. weight and
// blend₁ get Σ g ⊙ tensor over rows, blend₀ gets Σ g ⊙ s. d(sum) is added to g before the kept
// terms. Every block contributes to dx0: since each block takes the previous block's x0, its kernel
// adds its contribution in place and autograd sums nothing.
//
// The kernels support x [+ branch] [+ weight [] or [D] ⊙ skip, or blend [2, D] of x + branch and
// skip] [blend of the sum and x0; required with blend [2, D] of the skip], `keep` only after the
// plain terms, D a multiple of 8 up to 2048, and fp32 parameters. They round once per output and
// quantize the branch's gradient for its FP8 GEMM (empty_fp8_like()); the norm is computed from the
// rounded x'. Those of mix_norm.h support other terms without blend.
ResidualNorm residual_norm(const MixTerms& terms, const NormOptions& norm = {},
                           std::size_t keep = 0);

// Two lanes of the residual stream, or the last one alone, each a weighted sum of the same terms:
//   lane k = Σ_t weights[k, t] · term t
// With two lanes, lane 0 then adds a skip, and its norm reads a mix with x0:
//   lane 0 ← blend₀ ⊙ lane 0 + blend₁ ⊙ skip,  mixed = mix₀ ⊙ lane 0 + mix₁ ⊙ x0
struct LaneTerms {
  std::size_t lanes = 2;
  MixTerms terms{};     // of one dtype, without own weights or blend; undefined tensors are omitted
  MixWeight weights{};  // [lanes, terms]; undefined: each lane is the plain sum
  at::Tensor skip{};    // [..., D]; undefined: lane 0 ← blend₀ ⊙ lane 0
  MixWeight blend{};    // [2, D]; undefined: no skip and no scaling of lane 0
  at::Tensor x0{};
  MixWeight mix{};  // [2] or [2, D]; undefined: mixed is lane 0
};
// y: the norms of mixed (or of the single lane) and of lane 1.
struct NormedLanes {
  std::array<at::Tensor, 2> lanes{};  // if there are two
  std::array<NormedInput, 2> y{};
  at::Tensor x0{};  // for the next block, if there is a mix (ResidualNorm::x0)
};

// Computes the lanes and their norms between two blocks, or the final norm of a single lane. The
// gradient of x0 accumulates in place. The kernels support four terms with weights, or two lanes of
// x [+ branch] without; per-channel fp32 parameters. They round once per output and quantize the
// gradients of the last two terms for FP8 GEMMs. Norms and later sums are computed from the rounded
// lanes.
NormedLanes residual_norm(const LaneTerms& terms, const std::array<NormOptions, 2>& norms);

// Chooses the kernel for rows like x's, given terms that the kernels support.
Kernel choose_residual_norm(const at::Tensor& x);

// Returns only x'.
at::Tensor residual_sum(const MixTerms& terms);

}  // namespace tg
