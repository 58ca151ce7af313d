#pragma once
#include "ops/attention/head_vectors_kernel.h"

namespace tg::cuda {

// Backward pass of causal attention (FlashAttention-2, Dao 2023) with heads of 64 or 128 channels,
// in bf16 or fp16.
constexpr int kAttentionBlock = 128;
struct AttentionShape {
  int batch, seq_len;
  int padded_len;       // seq_len as a multiple of kAttentionBlock
  int heads, kv_heads;  // heads is a multiple of kv_heads
  int head_dim;
  float scale;  // of q·kᵀ
};

// Tensors of tokens' heads [B·T, heads or KV, head_dim].
struct AttentionTensors {
  HeadVectors q, k, v;
  HeadVectors out, d_out;
  // [heads·hd / 64, B·T]: Σ out·d_out over 64 channels each. If null, they come of out and d_out,
  // and if out has no data either, row_stats has the second of its parts already.
  const float* delta_parts = nullptr;
  const float* logsumexp;  // [B, heads, T], natural, of the scaled scores
  // [B, T]: before which position of its row queries see a key, rising; null: the row's end.
  const int* visible_until = nullptr;
};
struct AttentionGradients {
  void *q, *k, *v;  // contiguous; null q: it stays in q_sum, as query_sum.cuh describes
  // Workspaces: [2, B, heads, padded_len], log2(e)·logsumexp and out·d_out of each row,
  // [B, heads, padded_len, head_dim], [B, heads, padded_len / 64] and [].
  float *row_stats, *q_sum;
  int *q_begun, *next_unit;
};
// The sums over keys in q's gradient are in no fixed order, so that its bits differ between calls.
// Throws std::runtime_error where CUDA reports an error.
void attention_backward(const AttentionShape& shape, const AttentionTensors& in,
                        const AttentionGradients& out, Dtype dtype, Stream stream);

}  // namespace tg::cuda
