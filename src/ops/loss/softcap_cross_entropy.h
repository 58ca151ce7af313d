#pragma once
#include <ATen/ATen.h>

#include <cstdint>

#include "ops/fused.h"

namespace tg {

// Cross-entropy of softcapped logits, s = cap·tanh(z/cap) (Gemma 2): −log softmax(s)[target], in
// fp32 (fp64 for fp64) whatever the logits' dtype. Rows may be longer than the vocabulary: only the
// first `vocab` columns count (0: all of them), whatever finite numbers the others hold, and the
// others' gradient is zero.

// scale times the mean over the rows, differentiable in the logits: dz = scale·(softmax(s) −
// onehot)·(1 − tanh²(z/cap))/N. logits [N, at least vocab], targets [N] int64 → [] fp32.
// The gradient is computed in the forward pass, so that neither s nor its softmax is saved, and
// rounded once to the logits' dtype: factors known by then belong in `scale`, which the loss has
// too, and in `grad_scale` (loss scaling), which it has not: [] fp32 on the device, or undefined
// for 1. On a GPU, if the logits require a gradient, it overwrites them: they must not be used
// afterwards, and autograd reports an error if another operation has saved them.
at::Tensor softcap_cross_entropy(const at::Tensor& logits_nv, const at::Tensor& targets_n,
                                 double cap, double scale = 1, std::int64_t vocab = 0,
                                 const at::Tensor& grad_scale = {});

// −log softmax(s)[target] of every row, differentiable in the logits → [N] fp32. Keeps the logits
// for backward, which overwrites them with their gradient, rounded once: what comes from upstream
// and grad_scale are multiplied in before.
at::Tensor softcap_losses(const at::Tensor& logits_nv, const at::Tensor& targets_n, double cap,
                          std::int64_t vocab = 0, double grad_scale = 1);

// What computes it, of so many columns in the dtype and on the device of x.
Kernel choose_softcap_cross_entropy(const at::Tensor& x, std::int64_t columns, double cap);

// −log softmax(s)[target] of every row, without a gradient → [N] fp32. Does not change the logits.
at::Tensor softcap_nll(const at::Tensor& logits_nv, const at::Tensor& targets_n, double cap,
                       std::int64_t vocab = 0);

}  // namespace tg
