#pragma once
#include "ops/attention/kernels/attention_backward_hopper.h"
#include "ops/attention/kernels/head_vectors.h"

namespace tg {

// Makes attention_backward()'s shape from q [B, T, heads, hd] and k [B, T, KV, hd].
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

// Workspaces of attention_backward() (cuda::AttentionGradients).
struct AttentionWorkspace {
  at::Tensor row_stats, q_sum, q_begun, next_unit;

  AttentionWorkspace(const cuda::AttentionShape& shape, at::Device device)
      : row_stats(empty({2, shape.batch, shape.heads, shape.padded_len}, at::kFloat, device)),
        q_sum(empty({shape.batch, shape.heads, shape.padded_len, shape.head_dim}, at::kFloat,
                    device)),
        q_begun(empty({shape.batch, shape.heads, shape.padded_len / 64}, at::kInt, device)),
        next_unit(empty({}, at::kInt, device)) {}

  // `dq` undefined: dQ stays in q_sum.
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
  // Destination of the delta that exclusive_attention_backward() computes.
  cuda::RowDelta row_delta(const cuda::AttentionShape& shape) const {
    return {.delta = mutable_fp32_data(row_stats[1]),
            .seq_len = shape.seq_len,
            .padded_len = shape.padded_len};
  }

 private:
  static at::Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype, at::Device device) {
    return at::empty(sizes, at::TensorOptions(device).dtype(dtype));
  }
};

}  // namespace tg
