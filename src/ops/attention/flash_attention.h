#pragma once
#include "ops/attention/documents.h"

namespace tg {

struct AttentionForward {
  at::Tensor y, logsumexp;  // [B, S, heads, hd] in q's dtype; [B, heads, S] fp32
};

// Causal attention by LibTorch's FlashAttention (Dao 2023), on a GPU in half precision,
// differentiable. Arguments are as in causal_attention(); `scale` is the softmax scale. Without
// documents there may be fewer queries than keys; they are then the last positions.
AttentionForward flash_attention(const at::Tensor& q_bshd, const at::Tensor& k_bthd,
                                 const at::Tensor& v_bthd, double scale,
                                 const std::optional<Documents>& documents, std::int64_t window);

// Computes flash_attention() with documents or a window by cuDNN's kernel, without a gradient: on
// Hopper it takes half to two thirds of FlashAttention-2's time (docs/optimizations.md). Calls
// cuDNN directly, since LibTorch exposes this kernel only for whole rows. Returns nullopt, having
// computed nothing, if cuDNN is disabled (use_attention) or has no kernel for the problem. The
// first call of a shape builds a plan, which takes about 50 ms on the host and must not be
// captured.
std::optional<AttentionForward> cudnn_attention(const at::Tensor& q_bthd, const at::Tensor& k_bthd,
                                                const at::Tensor& v_bthd, double scale,
                                                const std::optional<Documents>& documents,
                                                std::int64_t window);
// Computes cudnn_attention() or, if it returns nullopt or a gradient is needed, flash_attention().
AttentionForward cudnn_or_flash_attention(const at::Tensor& q_bthd, const at::Tensor& k_bthd,
                                          const at::Tensor& v_bthd, double scale,
                                          const std::optional<Documents>& documents,
                                          std::int64_t window);

}  // namespace tg
