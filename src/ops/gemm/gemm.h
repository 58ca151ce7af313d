#pragma once
// GEMMs. On a GPU, half-precision and FP8 GEMMs run through cublasLt with the algorithm chosen by
// algorithm_choice.h, if any; else through LibTorch.
#include "ops/gemm/gemm_problem.h"

namespace tg {

// Computes a [..., K] · b [K, N] → [..., N], accumulated in fp32 and rounded once. b may be a
// transposed view. Differentiable: if grad mode is enabled, LibTorch computes it.
at::Tensor gemm(const at::Tensor& a, const at::Tensor& b);

// Computes out [M, N] = a [M, K] · b [K, N], or += if `accumulates`. Returns false, having done
// nothing, if the caller should use LibTorch instead. Operands are in half precision or FP8; each
// may be a transposed view. `fast`: FP8 tensor cores accumulate with 14 bits.
bool gemm_by_choice(const GemmTensors& tensors, bool accumulates = false, bool fast = false);

}  // namespace tg
