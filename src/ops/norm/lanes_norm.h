#pragma once
#include <ATen/ATen.h>

#include <array>

#include "ops/norm/residual_norm.h"

namespace tg {

// One or two lanes of the residual stream, each a weighted sum of the same terms:
//   lane k = Σ_t weights[k, t] · term t
// With two lanes, lane 0 then adds a skip, and its norm reads a mix with x0:
//   lane 0 ← blend₀ ⊙ lane 0 + blend₁ ⊙ skip,  mixed = mix₀ ⊙ lane 0 + mix₁ ⊙ x0
struct LaneTerms {
  MixTerms terms{};     // of one dtype, without own weights or blend; undefined tensors are omitted
  MixWeight weights{};  // [lanes, terms]; undefined: two lanes, each the plain sum
  at::Tensor skip{};    // [..., D]; undefined: lane 0 ← blend₀ ⊙ lane 0
  MixWeight blend{};    // [2, D]; undefined: no skip and no scaling of lane 0
  at::Tensor x0{};
  MixWeight mix{};  // [2] or [2, D]; undefined: mixed is lane 0

  std::size_t lanes() const {
    return weights.defined() ? static_cast<std::size_t>(weights.value.size(0)) : 2;
  }
};

// y: the norms of mixed (or of the single lane) and of lane 1.
struct NormedLanes {
  std::array<at::Tensor, 2> lanes{};  // if there are two
  std::array<NormedInput, 2> y{};
  at::Tensor x0{};  // for the next block, if there is a mix (ResidualNorm::x0)
};

// Computes the lanes and their norms between two blocks, or the final norm of a single lane. The
// gradient of x0 accumulates in place, as in residual_norm(). The kernels support four terms with
// weights, or x [+ branch] without; per-channel fp32 parameters; D as in residual_norm(). They
// round once per output and quantize the gradients of the last two terms for FP8 GEMMs. Norms and
// later sums are computed from the rounded lanes.
NormedLanes lanes_norm(const LaneTerms& terms, const std::array<NormOptions, 2>& norms);

}  // namespace tg
