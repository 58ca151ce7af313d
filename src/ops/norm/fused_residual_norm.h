#pragma once
#include <array>

#include "ops/norm/residual_norm.h"

namespace tg {

struct FusedLanes : NormedLanes {
  at::Tensor sum{};  // x + branch of one lane, if it is kept
};

// Computes residual_norm() by the kernels, for terms that they support (ops/norm/residual_norm.h):
// four with weights, else x [+ branch]. One lane without weights is x' of ResidualNorm: it includes
// the mix, which may be [2], and its `blend` may be the weight [D] of the skip.
FusedLanes fused_residual_norm(const LaneTerms& terms, const std::array<NormOptions, 2>& norms,
                               bool keep_sum = false);

}  // namespace tg
