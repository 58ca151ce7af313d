#include "ops/attention/flash_attention.h"

#include "ops/attention/cudnn_attention.h"
#include "ops/attention/fused_attention.h"

namespace tg {

namespace {

// Queries and keys [B, S, …] in rows, or [tokens, …] in documents at `offsets`.
struct Sequences {
  std::optional<at::Tensor> offsets;
  std::int64_t longest_q, longest_k;
};

AttentionForward run(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                     const Sequences& of, std::int64_t window) {
  std::optional<std::int64_t> keys_before, keys_behind;
  if (window > 0) keys_before = window - 1, keys_behind = 0;
  const auto results = at::_flash_attention_forward(
      q, k, v, of.offsets, of.offsets, of.longest_q, of.longest_k, /*dropout_p=*/0.0,
      /*is_causal=*/true, /*return_debug_mask=*/false, scale, keys_before, keys_behind);
  return {std::get<0>(results), std::get<1>(results)};
}

}  // namespace

AttentionForward flash_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 double scale, const std::optional<Documents>& documents,
                                 std::int64_t window) {
  // Its causal mask ends with the last key for the last query, unlike scaled_dot_product's.
  if (!documents) return run(q, k, v, scale, {{}, q.size(1), k.size(1)}, window);
  const Sequences sequences{documents->offsets, documents->longest, documents->longest};
  const auto [y, logsumexp] =
      run(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), scale, sequences, window);
  return {y.view(q.sizes()), logsumexp.view({q.size(2), q.size(0), q.size(1)}).transpose(0, 1)};
}

AttentionForward cudnn_or_flash_attention(const at::Tensor& q, const at::Tensor& k,
                                          const at::Tensor& v, double scale,
                                          const std::optional<Documents>& documents,
                                          std::int64_t window) {
  std::optional<AttentionForward> found;
  if (!wants_gradient(q, k, v)) found = cudnn_attention(q, k, v, scale, documents, window);
  return found ? *found : flash_attention(q, k, v, scale, documents, window);
}

}  // namespace tg
