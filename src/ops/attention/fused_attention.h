#pragma once
#include "ops/attention/attention.h"

namespace tg {

// causal_attention() with cuDNN's forward pass (of documents and windows cudnn_attention(), else
// FlashAttention's) and the backward pass of attention_backward_hopper.h, which spares cuDNN's
// passes over the heads before and after its own. Arguments and result as there; `scale` of the
// scores.
at::Tensor fused_attention(const at::Tensor& q_bthd, const at::Tensor& k_bthd,
                           const at::Tensor& v_bthd, double scale, const AttentionOptions& options);
// Whether it serves these: Hopper, heads of 64 or 128 in half precision, cuDNN in use
// (use_attention), and a gradient wanted, since else nothing differs.
bool fused_attention_supports(const at::Tensor& q_bthd, const at::Tensor& k_bthd,
                              const at::Tensor& v_bthd);
// Returns whether any input requires a gradient, as autograd is now.
bool wants_gradient(const at::Tensor& q_bthd, const at::Tensor& k_bthd, const at::Tensor& v_bthd);

}  // namespace tg
