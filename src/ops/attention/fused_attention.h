#pragma once
#include "ops/attention/attention.h"
#include "ops/attention/flash_attention.h"

namespace tg {

// Computes flash_attention() with documents or a window by attention_forward_hopper.h, without a
// gradient.
AttentionForward hopper_attention(const at::Tensor& q_bthd, const at::Tensor& k_bthd,
                                  const at::Tensor& v_bthd, double scale,
                                  const std::optional<Documents>& documents, std::int64_t window);
// Whether the kernels of attention_forward_hopper.h and attention_backward_hopper.h can run: on
// Hopper, with heads of 64 or 128 in half precision and at least two tokens, with cuDNN enabled
// (use_attention).
bool hopper_attention_supports(const at::Tensor& q_bthd, const at::Tensor& k_bthd,
                               const at::Tensor& v_bthd);

// causal_attention() with cuDNN's forward pass (with documents or a window hopper_attention()) and
// the backward pass of attention_backward_hopper.h, which avoids the passes over the heads that
// cuDNN makes before and after its kernel. Arguments and result are as in causal_attention();
// `scale` is the softmax scale.
at::Tensor fused_attention(const at::Tensor& q_bthd, const at::Tensor& k_bthd,
                           const at::Tensor& v_bthd, double scale, const AttentionOptions& options);
// Whether fused_attention() supports these: hopper_attention_supports(), and a gradient is needed.
bool fused_attention_supports(const at::Tensor& q_bthd, const at::Tensor& k_bthd,
                              const at::Tensor& v_bthd);

}  // namespace tg
