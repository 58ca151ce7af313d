#pragma once
#include <ATen/ATen.h>

namespace tg {

// Documents in rows of tokens [B, T]: attention sees those of the own one alone. None is in two
// rows.
struct Documents {
  // [count + 1] int32: the first token of each, of all B·T, and B·T. There may be empty ones.
  at::Tensor offsets;
  std::int64_t longest;  // the most tokens of one
  at::Tensor ends;       // [B, T] int32: of a token, where in its row its document ends

  at::Tensor hidden() const;  // [B, 1, T, T] bool: which queries do not see which keys
};

// starts [B, T] bool, on the CPU: whether a document begins with the token; one does with each row.
// → on `device`, for which nothing waits.
Documents documents_in(const at::Tensor& starts, at::Device device);

// The same where `offsets` are known, on their device, by work that can be captured: one begins
// with each of B rows of T.
Documents documents_at(const at::Tensor& offsets, std::int64_t rows, std::int64_t seq_len,
                       std::int64_t longest);

// Causal attention of documents by LibTorch's FlashAttention (Dao 2023), on a GPU in half
// precision, with a gradient; arguments as causal_attention()'s, and the scale of the scores.
struct DocumentAttention {
  at::Tensor y, logsumexp;  // [B, T, heads, hd], [heads, B·T] fp32
};
DocumentAttention flash_attention(const at::Tensor& q_bthd, const at::Tensor& k_bthd,
                                  const at::Tensor& v_bthd, double scale,
                                  const Documents& documents);

}  // namespace tg
