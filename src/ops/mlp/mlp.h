#pragma once
#include "ops/fused.h"
#include "ops/gemm/linear.h"

namespace tg {

// x [..., D] → leaky_relu_squared(x·upᵀ, slope)·downᵀ [..., D], with up [F, D] and down [D, F].
// Weight gradients as linear()'s. On Hopper, in bf16 and fp16, the activation and its gradient are
// computed in GEMM epilogues, and the activation and a sign bit per element are saved for backward
// instead of x·upᵀ. With `fp8` there all six GEMMs have FP8 operands, weight gradients included,
// and no tensor of width F is in 16 bits (fp8_mlp.h). `recompute`: the activation is not saved but
// computed again in backward, from x·upᵀ, on Hopper by the first GEMM, with equal bits.
at::Tensor mlp(const NormedInput& x, const Weight& up, const Weight& down, double slope,
               bool recompute, Kernel kernel);
// Returns the kernel for these weights and rows like x's, with gradients or without as autograd is
// now.
Kernel choose_mlp(const at::Tensor& x, const Weight& up, const Weight& down);
// By the kernel of choose_mlp().
at::Tensor mlp(const NormedInput& x, const Weight& up, const Weight& down, double slope,
               bool recompute = false);
// The form in which it takes the normed rows.
NormedForm mlp_input(Kernel kernel);

}  // namespace tg
