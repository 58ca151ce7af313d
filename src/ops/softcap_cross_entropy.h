#pragma once
#include <ATen/ATen.h>

namespace tg {

// Cross-entropy of softcapped logits, s = cap·tanh(z/cap) (Gemma 2): −log softmax(s)[target], in
// fp32 (fp64 for fp64) whatever the logits' dtype.

// Mean over the rows, differentiable in the logits: dz = (softmax(s) − onehot)·(1 −
// tanh²(z/cap))/N. The gradient is computed with the loss, so that neither s nor its softmax
// outlives the call; it is kept in the logits' dtype. logits [N, V], targets [N] int64 → [] fp32.
at::Tensor softcap_cross_entropy(const at::Tensor& logits_nv, const at::Tensor& targets_n,
                                 double cap);

// The same for every row, without a gradient → [N] fp32.
at::Tensor softcap_nll(const at::Tensor& logits_nv, const at::Tensor& targets_n, double cap);

}  // namespace tg
