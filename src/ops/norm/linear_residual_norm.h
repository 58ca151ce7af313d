#pragma once
#include "ops/fused.h"
#include "ops/gemm/linear.h"
#include "ops/norm/input_dots.h"
#include "ops/norm/residual_norm.h"

namespace tg {

// residual_norm() of x and linear(in, weight). Where the normed rows are wanted scaled_by_row, in
// bf16 on Hopper without FP8, the GEMM's epilogue adds the residual and sums the squares of its
// rows: the branch is never written, and there is no pass after it. The backward pass then leaves
// `in_dots` where they are wanted, of `in` with a multiple of 64 channels.
ResidualNorm linear_residual_norm(const at::Tensor& in, const Weight& weight, const at::Tensor& x,
                                  const NormOptions& norm, const InputDotsPtr& in_dots,
                                  Kernel kernel);
// Returns the kernel for rows like x's and a norm in that form, with gradients or without as
// autograd is now. cuda: the GEMM is LibTorch's.
Kernel choose_linear_residual_norm(const at::Tensor& x, const Weight& weight, NormedForm form);

}  // namespace tg
