#pragma once
#include "ops/gemm/linear.h"

namespace tg {

// x [..., D] → leaky_relu_squared(x·upᵀ, slope)·downᵀ [..., D], with up [F, D] and down [D, F].
// Gradients as linear()'s. On Hopper the activation and its gradient are computed in bf16 products'
// epilogues, and backward keeps the activation and a sign a number instead of x·upᵀ.
at::Tensor mlp(const at::Tensor& x, const Weight& up, const Weight& down, double slope);

}  // namespace tg
