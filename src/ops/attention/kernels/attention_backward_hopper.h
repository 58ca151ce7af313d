#pragma once
#include "ops/attention/kernels/attention_kernel.h"

namespace tg::cuda {

// Inputs. HeadVectors are [B·T, heads or KV, head_dim].
struct AttentionTensors {
  HeadVectors q, k, v;
  HeadVectors out, d_out;
  // [heads·parts, B·T]: sums of out·d_out over each of a head's parts. Null: computed from out and
  // d_out; if out has no data either, delta is already in row_stats[1].
  const float* delta_parts = nullptr;
  int parts = 1;           // of a head in delta_parts
  const float* logsumexp;  // [B, heads, T]: natural log, of the scaled scores
  // [B, T]: for each key, the query position in its row at which its visibility ends,
  // non-decreasing; null: the end of the row.
  const int* visible_until = nullptr;
};
struct AttentionGradients {
  void *q, *k, *v;  // contiguous; null q: dQ stays in q_sum, in query_sum.cuh's layout
  // Workspaces. row_stats [2, B, heads, padded_len]: log2(e)·logsumexp and delta = rowsum(dO ∘ O).
  // q_sum [B, heads, padded_len, head_dim]: fp32 dQ accumulator. q_begun [B, heads, padded_len /
  // 64]: initialized tiles of q_sum. next_unit []: scheduler counter.
  float *row_stats, *q_sum;
  int *q_begun, *next_unit;
};
// Backward pass of causal attention (FlashAttention-2, Dao 2023) with heads of 64 or 128 channels,
// in bf16 or fp16. dQ is nondeterministic: its sums over keys are in no fixed order. Throws
// std::runtime_error if CUDA reports an error.
void attention_backward(const AttentionShape& shape, const AttentionTensors& in,
                        const AttentionGradients& out, Dtype dtype, Stream stream);

}  // namespace tg::cuda
