#pragma once
#include <ATen/ATen.h>

#include <cstdint>

#include "ops/fused.h"

namespace tg {

// Cross-entropy of softcapped logits, s = cap·tanh(z/cap) (Gemma 2): −log softmax(s)[target], in
// fp32 (fp64 for fp64) for any dtype of the logits. Only the first `vocab` columns are used (0:
// all); the others may hold any finite values and get a zero gradient.

// Returns scale times the mean over the rows, differentiable in the logits: dz = scale·(softmax(s)
// − onehot)·(1 − tanh²(z/cap))/N. logits [N, at least vocab], targets [N] int64 → [] fp32. The
// gradient is computed in the forward pass, so that neither s nor its softmax is saved, and rounded
// once to the logits' dtype. Factors that are known in the forward pass should therefore be in
// `scale`, which also scales the loss, or in `grad_scale` (loss scaling; [] fp32 on the device,
// undefined: 1), which does not. On a GPU, the gradient overwrites the logits if they require one:
// they must not be used afterwards, and autograd reports an error if another operation has saved
// them.
at::Tensor softcap_cross_entropy(const at::Tensor& logits_nv, const at::Tensor& targets_n,
                                 double cap, double scale = 1, std::int64_t vocab = 0,
                                 const at::Tensor& grad_scale = {});

// Returns −log softmax(s)[target] of each row [N] fp32, differentiable in the logits. Saves the
// logits for backward, which overwrites them with their gradient; the upstream gradient and
// grad_scale are applied before the only rounding.
at::Tensor softcap_losses(const at::Tensor& logits_nv, const at::Tensor& targets_n, double cap,
                          std::int64_t vocab = 0, double grad_scale = 1);

// Chooses the kernel for logits of this many columns with x's dtype and device.
Kernel choose_softcap_cross_entropy(const at::Tensor& x, std::int64_t columns, double cap);

// Returns −log softmax(s)[target] of each row [N] fp32, without a gradient. Does not change the
// logits.
at::Tensor softcap_nll(const at::Tensor& logits_nv, const at::Tensor& targets_n, double cap,
                       std::int64_t vocab = 0);

}  // namespace tg
