#pragma once
#include "ops/fused.h"
#include "ops/gemm/linear.h"
#include "ops/norm/residual_norm.h"
#include "ops/passed_gradients.h"

namespace tg {

// Computes residual_norm() of x + linear(in, weight). On Hopper in bf16 without FP8 and with
// norm.form deferred_scale, the GEMM's epilogue adds the residual and sums the squares of its rows:
// the branch is not materialized and no further pass is needed. The backward pass then computes
// PassedGradients::delta if it is taken; `in` must have a multiple of 64 channels.
ResidualNorm linear_residual_norm(const at::Tensor& in, const Weight& weight, const at::Tensor& x,
                                  const NormOptions& norm, const PassedGradientsPtr& passed,
                                  Kernel kernel);
// Chooses the kernel for rows like x's and the given NormedForm, considering the current grad mode.
// cuda: LibTorch's GEMM with residual_norm()'s kernel.
Kernel choose_linear_residual_norm(const at::Tensor& x, const Weight& weight, NormedForm form);

}  // namespace tg
