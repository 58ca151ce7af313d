#pragma once
#include "ops/fused.h"
#include "ops/gemm/linear.h"

namespace tg {

// Computes leaky_relu_squared(x·upᵀ, slope)·downᵀ: x [..., D] → [..., D], with up [F, D] and down
// [D, F]. Weight gradients are as in linear(). On a GPU in bf16 and fp16, the activation and a sign
// bit per element are saved for backward instead of x·upᵀ; on Hopper the activation and its
// gradient are computed in GEMM epilogues. With weights in FP8 on a GPU, all six GEMMs have FP8
// operands, including the weight gradients' (fp8_mlp.h). `recompute`: the activation is not saved;
// backward recomputes it, from a saved x·upᵀ in fp32 and on a CPU, else by repeating the first
// GEMM, with the same bits.
at::Tensor mlp(const NormedInput& x, const Weight& up, const Weight& down, double slope,
               bool recompute, Kernel kernel);
// Chooses the kernel for these weights and rows like x's, considering the current grad mode.
Kernel choose_mlp(const at::Tensor& x, const Weight& up, const Weight& down);
// mlp() with the kernel of choose_mlp().
at::Tensor mlp(const NormedInput& x, const Weight& up, const Weight& down, double slope,
               bool recompute = false);
// Returns the form of the normalized input that the kernel requires.
NormedForm mlp_input(Kernel kernel);

}  // namespace tg
