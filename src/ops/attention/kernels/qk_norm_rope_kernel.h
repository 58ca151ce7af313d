#pragma once
#include "ops/attention/kernels/head_vectors_kernel.h"
#include "ops/gemm/fp8_kernel.h"

namespace tg::cuda {

// Kernels of ops/attention/projection/qk_norm_rope.h. A null pointer omits an optional tensor.
struct QkvShape {
  int tokens, seq_len, heads, kv_heads, head_dim, half_rope_dims;
  int channels;  // of a head, without padding, for the norm's mean
};

struct QkNormRopeInputs {
  const void* qkv;  // [tokens, heads + 2·KV, hd]
  // [tokens, heads + KV]: row_scale/rms of the heads of q and k, if qkv already holds them
  // normalised, rotated and scaled (nonzero_gain); backward only. Null: qkv is the plain
  // projection.
  const float* inverse_rms;
  const void *cos, *sin;           // [seq_len, half_rope_dims]
  const float* q_gain;             // [heads]
  HeadVectors embedding, first_v;  // [tokens, KV, hd]
  const float* first_weight;       // [], of first_v
  // [tokens]: row scale of the projection's input, applied to the projection and its gradient.
  // Null: 1. Not read by qk_norm_rope_forward().
  const float* row_scale;
};

// Upstream gradients.
struct QkNormRopeUpstream {
  HeadVectors q, k, v, exclusive_v;
  HeadVectors first_v;  // summed over later layers
  // Replaces q, with in.inverse_rms and heads of 64 or 128: in query_sum.cuh's layout.
  const float* q_sum;
  int padded_len;  // rows of q_sum per sequence
};

constexpr int kWeightSums = 1;
struct QkNormRopeGradients {
  void* qkv;         // null: only qkv_copy is written
  void* first_v;     // may alias the upstream first_v; null in the first layer
  float* partials;   // workspace [qk_norm_rope_backward_blocks(shape), heads + kWeightSums]
  float* sums;       // [heads + kWeightSums]: gradients of q_gain, then of first_weight
  Fp8Copy qkv_copy;  // only in bf16 with in.inverse_rms
};

// q, k and v are contiguous. Null v: not written, since it is unchanged in qkv. Either heads or KV
// may be 0.
void qk_norm_rope_forward(const QkvShape& shape, const QkNormRopeInputs& in, void* q, void* k,
                          void* v, Dtype dtype, Stream stream);
void qk_norm_rope_backward(const QkvShape& shape, const QkNormRopeInputs& in,
                           const QkNormRopeUpstream& upstream, const QkNormRopeGradients& out,
                           Dtype dtype, Stream stream);
int qk_norm_rope_backward_blocks(const QkvShape& shape);

}  // namespace tg::cuda
