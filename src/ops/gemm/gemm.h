#pragma once
// GEMMs. On a GPU, in half precision and FP8, cublasLt computes them with an algorithm of our
// choice (algorithm_choice.h), if there is one; else LibTorch does.
#include "ops/gemm/gemm_problem.h"

namespace tg {

// a [..., K] · b [K, N], which may be a transposed view → [..., N], summed in fp32 and rounded
// once. Autograd follows it: with gradients LibTorch computes it.
at::Tensor gemm(const at::Tensor& a, const at::Tensor& b);

// out [M, N] = a [M, K] · b [K, N], or += → false, with nothing done, where LibTorch's call is to
// compute it. Operands of half precision or FP8; each may be a transposed view. `fast`: of FP8, the
// tensor cores accumulate with 14 bits.
bool gemm_by_choice(const GemmTensors& tensors, bool accumulates = false, bool fast = false);

}  // namespace tg
