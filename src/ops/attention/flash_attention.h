#pragma once
#include "ops/attention/documents.h"

namespace tg {

struct AttentionForward {
  at::Tensor y, logsumexp;  // as q [B, S, heads, hd]; [B, heads, S] fp32
};

// Causal attention by LibTorch's FlashAttention (Dao 2023), on a GPU in half precision, with a
// gradient; arguments as causal_attention()'s, and the scale of the scores. Without documents there
// may be fewer queries than keys: the last positions' queries.
AttentionForward flash_attention(const at::Tensor& q_bshd, const at::Tensor& k_bthd,
                                 const at::Tensor& v_bthd, double scale,
                                 const std::optional<Documents>& documents, std::int64_t window);

}  // namespace tg
