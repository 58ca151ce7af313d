#pragma once
#include "ops/attention/kernels/attention_kernel.h"

namespace tg::cuda {

// HeadVectors are [B·T, heads or KV, head_dim].
struct AttentionInputs {
  HeadVectors q, k, v;
  // [B, T]: for each query, the first key in its row that it sees, non-decreasing.
  const int* visible_from;
};
struct AttentionOutputs {
  void* y;           // [B, T, heads, head_dim]
  float* logsumexp;  // [B, heads, T]: natural log, of the scaled scores
  int* next_tile;    // workspace []: scheduler counter
};
// Causal attention with heads of 64 or 128 channels, in bf16 or fp16: FlashAttention-3 (Shah et al.
// 2024). Deterministic. Throws std::runtime_error if CUDA reports an error.
void attention_forward(const AttentionShape& shape, const AttentionInputs& in,
                       const AttentionOutputs& out, Dtype dtype, Stream stream);

}  // namespace tg::cuda
