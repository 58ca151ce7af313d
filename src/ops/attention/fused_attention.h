#pragma once
#include "ops/attention/attention.h"

namespace tg {

// causal_attention() with cuDNN's forward pass (with documents or a window hopper_attention()) and
// the backward pass of attention_backward_hopper.h, which avoids the passes over the heads that
// cuDNN makes before and after its kernel. Arguments and result are
// as in causal_attention(); `scale` is the softmax scale.
at::Tensor fused_attention(const at::Tensor& q_bthd, const at::Tensor& k_bthd,
                           const at::Tensor& v_bthd, double scale, const AttentionOptions& options);
// Whether fused_attention() supports these: hopper_attention_supports(), and a gradient is needed.
bool fused_attention_supports(const at::Tensor& q_bthd, const at::Tensor& k_bthd,
                              const at::Tensor& v_bthd);
// Whether grad mode is enabled and any of these requires a gradient.
bool any_requires_grad(const at::Tensor& q_bthd, const at::Tensor& k_bthd,
                       const at::Tensor& v_bthd);

}  // namespace tg
