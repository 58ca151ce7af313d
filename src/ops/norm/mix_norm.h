#pragma once
#include "ops/norm/residual_norm.h"

namespace tg {

// residual_norm() and residual_sum() of two to six terms, each plain or with a weight [] or [...,
// 1], by kernels that read every term once, in backward too. They compute in fp32, round x' once,
// and add the gradients of shared tensors in place. D as in residual_norm().

// Whether the kernels support the terms.
bool mix_norm_supports(const MixTerms& terms);
// Requires mix_norm_supports(terms).
ResidualNorm mix_norm(const MixTerms& terms, const NormOptions& norm);
at::Tensor mix_sum(const MixTerms& terms);

}  // namespace tg
