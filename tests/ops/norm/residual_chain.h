#pragma once
// The named terms between two blocks.
#include <utility>

#include "ops/norm/residual_norm.h"

namespace tg::test {

// x + branch + skip_weight ⊙ skip, or with skip_blend a weighted sum of x + branch and skip; mixed
// with x0. Undefined tensors omit their terms.
struct ResidualChain {
  at::Tensor x{}, branch{}, skip{}, skip_weight{}, x0{}, mix{};
  Fp8Scaling branch_gradient_scaling{};
  MixWeight skip_blend{};

  MixTerms terms() const {
    MixTerms terms{{.tensor = x}};
    if (branch.defined())
      terms.push_back({.tensor = branch, .gradient_scaling = branch_gradient_scaling});
    if (skip_blend.defined())
      terms.push_back({.tensor = skip, .blend = skip_blend});
    else if (skip.defined())
      terms.push_back({.tensor = skip, .weight = skip_weight});
    if (mix.defined()) terms.push_back({.tensor = x0, .blend = mix});
    return terms;
  }
  // Also returns the sum of x and branch.
  std::size_t keep() const { return branch.defined() ? 2 : 1; }
};

}  // namespace tg::test
