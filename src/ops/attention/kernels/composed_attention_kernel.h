#pragma once
#include "device/launch.h"
#include "ops/attention/kernels/attention_kernel.h"

namespace tg::cuda {

// Kernels of ops/attention/composed_attention.h in bf16 and fp16.
constexpr int kMaxComposedWindow = 128;

struct ComposedShape {
  int batch, seq_len, heads;
  int head_dim;  // 64 or 128
  int window;    // at most kMaxComposedWindow
  float scale;   // of q·k; positive
};

// Values of tokens and heads are [B, heads, T] fp32.
struct ComposedInputs {
  HeadVectors q, k, v;
  const float *pre, *post;  // w1, normalised, and w2
  // [B, T]: the first key that a query sees, and the query at which a key's visibility ends
  // (visible_until()). Neither decreases along a row.
  const int *visible_from, *visible_until;
};

// y [B, T, heads, hd]; logsumexp [B, heads, T]: log2 Σ_s exp(scale·q·k_s), for backward.
void composed_attention_forward(const ComposedShape& shape, const ComposedInputs& in, void* y,
                                float* logsumexp, Dtype dtype, Stream stream);

struct ComposedGradients {
  void *q, *k, *v;    // [B, T, heads, hd]
  float *pre, *post;  // of the normalised w1, and of w2
};
void composed_attention_backward(const ComposedShape& shape, const ComposedInputs& in,
                                 const HeadVectors& d_y, const float* logsumexp,
                                 const ComposedGradients& out, Dtype dtype, Stream stream);

}  // namespace tg::cuda
