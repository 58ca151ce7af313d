#include "ops/attention/flash_attention.h"

namespace tg {

namespace {

// Fixed-length rows [B, S, …], or with `offsets` (cu_seqlens) packed documents [tokens, …].
struct Sequences {
  std::optional<at::Tensor> offsets;
  std::int64_t longest_q, longest_k;
};

AttentionForward run(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                     const Sequences& sequences, std::int64_t window) {
  std::optional<std::int64_t> window_left, window_right;
  if (window > 0) window_left = window - 1, window_right = 0;
  const auto results = at::_flash_attention_forward(
      q, k, v, sequences.offsets, sequences.offsets, sequences.longest_q, sequences.longest_k,
      /*dropout_p=*/0.0,
      /*is_causal=*/true, /*return_debug_mask=*/false, scale, window_left, window_right);
  return {std::get<0>(results), std::get<1>(results)};
}

}  // namespace

AttentionForward flash_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 double scale, const std::optional<Documents>& documents,
                                 std::int64_t window) {
  // FlashAttention's causal mask is aligned to the bottom right, unlike
  // scaled_dot_product_attention's.
  if (!documents) return run(q, k, v, scale, {{}, q.size(1), k.size(1)}, window);
  const Sequences sequences{documents->offsets, documents->longest, documents->longest};
  const auto [y, logsumexp] =
      run(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), scale, sequences, window);
  return {y.view(q.sizes()), logsumexp.view({q.size(2), q.size(0), q.size(1)}).transpose(0, 1)};
}

}  // namespace tg
