#pragma once
#include "ops/attention/head_vectors_kernel.h"
#include "ops/gemm/fp8_kernel.h"

namespace tg::cuda {

// Kernels of ops/attention/qk_norm_rope.h. A null pointer stands for an optional tensor that is not
// there.
struct QkvShape {
  int tokens, seq_len, heads, kv_heads, head_dim, half_rope_dims;
  int channels;  // of a head; the others are padding, which the norm's mean does not count
};

struct QkNormRopeInputs {
  const void* qkv;  // [tokens, heads + 2·KV, hd]
  // [tokens, heads + KV]: row_scale/rms of q's and k's heads, where these are normalised, rotated
  // and scaled (nonzero_gain) in qkv already, for backward alone. Null: qkv is the plain
  // projection.
  const float* inverse_rms;
  const void *cos, *sin;           // [seq_len, half_rope_dims]
  const float* q_gain;             // [heads]
  HeadVectors embedding, first_v;  // [tokens, KV, hd]
  const float* first_weight;       // [], of first_v
  // [tokens]: of the projection's input, which the projection and its gradient are multiplied by.
  // Null: 1; qk_norm_rope_forward does not read it.
  const float* row_scale;
};

// Upstream gradients.
struct QkNormRopeUpstream {
  HeadVectors q, k, v, exclusive_v;
  HeadVectors first_v;  // summed over the later layers
  // Instead of q, with in.inverse_rms and heads of 64 or 128: as query_sum.cuh describes it.
  const float* q_sum;
  int padded_len;  // its rows of a sequence
};

constexpr int kWeightSums = 1;
struct QkNormRopeGradients {
  void* qkv;         // null: in qkv_copy alone
  void* first_v;     // may be the memory of the upstream first_v; null in the first layer
  float* partials;   // workspace [qk_norm_rope_backward_blocks(shape), heads + kWeightSums]
  float* sums;       // [heads + kWeightSums]: gradients of q_gain, then of first_weight
  Fp8Copy qkv_copy;  // in bf16 with in.inverse_rms alone
};

// q, k and v are contiguous. Null v: not written, since v is qkv's. One of heads and KV may be 0.
void qk_norm_rope_forward(const QkvShape& shape, const QkNormRopeInputs& in, void* q, void* k,
                          void* v, Dtype dtype, Stream stream);
void qk_norm_rope_backward(const QkvShape& shape, const QkNormRopeInputs& in,
                           const QkNormRopeUpstream& upstream, const QkNormRopeGradients& out,
                           Dtype dtype, Stream stream);
int qk_norm_rope_backward_blocks(const QkvShape& shape);

}  // namespace tg::cuda
