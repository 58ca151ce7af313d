#pragma once
#include "ops/attention/attention_backward_hopper.h"
#include "ops/attention/head_vectors.h"

namespace tg {

// Returns the shape of q [B, T, heads, hd] and k [B, T, KV, hd], as attention_backward() takes it.
inline cuda::AttentionShape attention_shape(const at::Tensor& q, const at::Tensor& k,
                                            double scale) {
  const auto blocks = (q.size(1) + cuda::kAttentionBlock - 1) / cuda::kAttentionBlock;
  return {.batch = static_cast<int>(q.size(0)),
          .seq_len = static_cast<int>(q.size(1)),
          .padded_len = static_cast<int>(blocks * cuda::kAttentionBlock),
          .heads = static_cast<int>(q.size(2)),
          .kv_heads = static_cast<int>(k.size(2)),
          .head_dim = static_cast<int>(q.size(3)),
          .scale = static_cast<float>(scale)};
}

// Workspace of attention_backward() beside its results.
struct AttentionWorkspace {
  at::Tensor row_stats, q_sum, q_begun, next_unit;

  AttentionWorkspace(const cuda::AttentionShape& of, at::Device device)
      : row_stats(empty({2, of.batch, of.heads, of.padded_len}, at::kFloat, device)),
        q_sum(empty({of.batch, of.heads, of.padded_len, of.head_dim}, at::kFloat, device)),
        q_begun(empty({of.batch, of.heads, of.padded_len / 64}, at::kInt, device)),
        next_unit(empty({}, at::kInt, device)) {}

  // With dq undefined it stays in q_sum.
  cuda::AttentionGradients gradients(const at::Tensor& dq, const at::Tensor& dk,
                                     const at::Tensor& dv) const {
    return {.q = mutable_data(dq),
            .k = mutable_data(dk),
            .v = mutable_data(dv),
            .row_stats = mutable_fp32_data(row_stats),
            .q_sum = mutable_fp32_data(q_sum),
            .q_begun = q_begun.mutable_data_ptr<int>(),
            .next_unit = next_unit.mutable_data_ptr<int>()};
  }
  // For exclusive_attention_backward(), which leaves out·d_out of each row.
  cuda::RowDelta row_delta(const cuda::AttentionShape& of) const {
    return {.delta = mutable_fp32_data(row_stats[1]),
            .seq_len = of.seq_len,
            .padded_len = of.padded_len};
  }

 private:
  static at::Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype, at::Device device) {
    return at::empty(sizes, at::TensorOptions(device).dtype(dtype));
  }
};

}  // namespace tg
