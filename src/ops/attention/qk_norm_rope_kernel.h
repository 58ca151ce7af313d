#pragma once
#include "ops/attention/head_vectors_kernel.h"

namespace tg::cuda {

// See qk_norm_rope.h. Null pointers stand for what is left out.
struct HeadShape {
  int tokens, seq_len, heads, kv_heads, head_dim, half_rope_dims;
};

struct HeadOperands {
  const void* qkv;  // [tokens, heads + 2·KV, hd]
  // [tokens, heads + KV]: the factors r of the norms of q and k, which stand in qkv already
  // normalised, rotated and with their gain (nonzero_gain). Null: qkv is as it was projected.
  const float* inverse_rms;
  const void *cos, *sin;           // [seq_len, half_rope_dims]
  const float* q_gain;             // [heads]
  HeadVectors embedding, first_v;  // [tokens, KV, hd]
  const float* lambda;             // value residual: none, one number or two
  int lambdas;
};

struct HeadGradients {
  HeadVectors q, k, v, exclusive_v;
  HeadVectors first_v;  // the sum over the later layers
};

constexpr int kLambdaSums = 2;

struct HeadGradientsOut {
  void* qkv;
  void* first_v;    // may be where the later layers' sum stands; null in the first layer
  float* partials;  // [attention_heads_partials(shape), heads + kLambdaSums]: workspace
  float* sums;      // [heads + kLambdaSums]: of q_gain, then of each lambda
};

// q, k and v are contiguous; null q and k: they stand in qkv. Null v: own is left as it is, where
// it is.
void attention_heads_forward(const HeadShape& shape, const HeadOperands& in, void* q, void* k,
                             void* v, Float number, Stream stream);
void attention_heads_backward(const HeadShape& shape, const HeadOperands& in,
                              const HeadGradients& gradients, const HeadGradientsOut& out,
                              Float number, Stream stream);
int attention_heads_partials(const HeadShape& shape);

}  // namespace tg::cuda
