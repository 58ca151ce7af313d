#pragma once
#include <ATen/ATen.h>

#include <array>

#include "ops/norm/residual_norm.h"

namespace tg {

// One lane or two of the residual stream: sums of the same terms,
//   lane k = Σ_t weights[k, t] · term t
// of two lanes the first then with a skip, and for its norm with a mix
//   lane 0 ← shares₀ ⊙ lane 0 + shares₁ ⊙ skip,  mixed = mix₀ ⊙ lane 0 + mix₁ ⊙ x0
struct LaneTerms {
  MixTerms terms{};     // of one dtype, without weights or shares; an undefined tensor is left out
  MixWeight weights{};  // [lanes, terms]; undefined: two lanes, each the plain sum
  at::Tensor skip{};    // [..., D]; undefined: lane 0 ← shares₀ ⊙ lane 0
  MixWeight shares{};   // [2, D]; undefined: without that line
  at::Tensor x0{};
  MixWeight mix{};  // [2] or [2, D]; undefined: mixed is lane 0

  std::size_t lanes() const {
    return weights.defined() ? static_cast<std::size_t>(weights.value.size(0)) : 2;
  }
};

// y: residual_norm()'s, of mixed (of the one lane) and of lane 1.
struct NormedLanes {
  std::array<at::Tensor, 2> lanes{};  // where there are two
  std::array<NormedInput, 2> y{};
  at::Tensor x0{};  // as the next block must take it, if there is a mix
};

// The lanes and their norms between two blocks, or from one lane the norm that ends the stream.
// Gradients as residual_norm()'s, x0's in place as well.
// The kernels compute four terms with weights, or x [+ branch] without; fp32 parameters by channel,
// D as residual_norm's. They round once per output, and the gradients of the last two terms for
// their FP8 GEMMs; norms, and everything after a lane, are of the rounded rows.
NormedLanes lanes_norm(const LaneTerms& terms, const std::array<NormOptions, 2>& norms);

}  // namespace tg
