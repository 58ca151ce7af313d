#pragma once
#include <ATen/ATen.h>

#include <cstdint>

#include "ops/fused.h"
#include "ops/loss/loss_targets.h"
#include "ops/loss/softcap.h"

namespace tg {

// Largest chunk of the logits' gradient in bytes. Smaller chunks read and write the fp32 dW more
// often and make GEMMs smaller. 1,152 MiB hold 11,776 rows of GPT-2's 50,304 columns in 16 bits;
// 65,536 tokens thus make chunks of 11,008.
inline constexpr std::int64_t kFusedHeadBytes = std::int64_t{1152} << 20;

struct CrossEntropyOptions {
  Softcap softcap;
  double scale = 1;  // multiplies the loss and the gradient
  // Columns that are used; the others may hold any finite values, and their gradient is zero. 0:
  // all.
  std::int64_t vocab = 0;
  at::Tensor grad_scale{};  // [] fp32, multiplies the gradient (loss scaling); undefined: 1
  // [] fp32, receives scale times the rows' mean of −log p of the first targets, if they are
  // weighted; undefined: not wanted.
  at::Tensor mean_nll{};
  std::int64_t chunk_bytes = kFusedHeadBytes;  // of linear_cross_entropy(); smaller in tests
};

// Cross-entropy of softcapped logits s, in fp32 (fp64 for fp64) for any dtype of the logits.

// Returns scale times the mean loss of the rows, differentiable in the logits z: dz = scale·(mass·p
// − Σ_k weight_k·onehot_k)·ds/dz/N, see LossTargets. logits [N, at least vocab] → [] fp32. The
// gradient is computed in the forward pass, so that neither s nor its softmax is saved, and rounded
// once to the logits' dtype. Factors that are known in the forward pass should therefore be in
// `scale` or `grad_scale`. On a GPU, the gradient overwrites the logits if they require one: they
// must not be used afterwards, and autograd reports an error if another operation has saved them.
at::Tensor softcap_cross_entropy(const at::Tensor& logits_nv, const LossTargets& targets,
                                 const CrossEntropyOptions& options);

// Returns −log softmax(s)[target] of each row [N] fp32, differentiable in the logits. Saves the
// logits for backward, which overwrites them with their gradient; the upstream gradient and
// grad_scale are applied before the only rounding.
at::Tensor softcap_losses(const at::Tensor& logits_nv, const at::Tensor& targets_n,
                          const Softcap& softcap, std::int64_t vocab = 0, double grad_scale = 1);

// Chooses the kernel for logits of this many columns with x's dtype and device.
Kernel choose_softcap_cross_entropy(const at::Tensor& x, std::int64_t columns,
                                    const Softcap& softcap);

// Returns −log softmax(s)[target] of each row [N] fp32, without a gradient. Does not change the
// logits.
at::Tensor softcap_nll(const at::Tensor& logits_nv, const at::Tensor& targets_n,
                       const Softcap& softcap, std::int64_t vocab = 0);
// Returns scale times the mean of the rows' losses.
at::Tensor scaled_mean(const at::Tensor& nll_n, double scale);

}  // namespace tg
