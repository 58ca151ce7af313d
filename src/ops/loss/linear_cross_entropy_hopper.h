#pragma once
#include "ops/loss/linear_cross_entropy_kernel.h"

namespace tg::cuda {

// softmax_gradient() in the epilogue of the GEMM of gemm_x and gemm_weight, whose logits are not
// materialized. With `fp8` also writes G's transpose [width, fp8_interleaved(N)].
void linear_softmax_gradient(const LinearCrossEntropy& args, void* transposed, float* sums,
                             Stream stream);
// The sums that it writes: a part per tile along the vocabulary.
SoftmaxSums linear_softmax_sums(int width, bool in_fp8);

}  // namespace tg::cuda
