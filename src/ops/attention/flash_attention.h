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

}  // namespace tg
