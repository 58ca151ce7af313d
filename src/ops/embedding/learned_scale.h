#pragma once
#include <ATen/ATen.h>

namespace tg {

// Returns scale·x for a learned scale [], of the value embedding: x [B, T, D] in any dtype, scale
// in fp32 (fp64 for fp64). Computed in the scale's dtype and rounded once; the scale's gradient Σ x
// ⊙ dy over all elements is summed in its dtype, in a fixed order.
at::Tensor learned_scale(const at::Tensor& x_btd, const at::Tensor& scale);

}  // namespace tg
