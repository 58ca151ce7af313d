#pragma once
// Kernels of heads with a weight for each token: ops/attention/gates/weighted_heads.h and
// scaled_heads.h.
#include "ops/attention/kernels/attention_kernel.h"

namespace tg::cuda {

// Numbers of each token in the kernel's dtype, for weights [tokens, heads]; those of a token are
// contiguous.
struct TokenNumbers {
  const void* data;
  std::int64_t token_stride;  // in elements
};

struct WeightedHeadsInputs {
  HeadVectors y, v;              // v: null without `exclusive`
  TokenNumbers exclusive, gate;  // null: without this part
};
// Contiguous; null for absent inputs.
struct WeightedHeadsGradients {
  void *y, *v, *exclusive, *gate;
  float* delta = nullptr;  // [heads, tokens]: rowsum(y ∘ dy); null: not computed
};

void weighted_heads_forward(const ExclusiveShape& shape, const WeightedHeadsInputs& in,
                            const RoundedHeads& out, Dtype dtype, Stream stream);
void weighted_heads_backward(const ExclusiveShape& shape, const WeightedHeadsInputs& in,
                             const HeadVectors& d_out, const WeightedHeadsGradients& out,
                             Dtype dtype, Stream stream);

// scaled_heads(): tensors of heads have head_stride = head_dim. out and the weights' gradient are
// contiguous; x's gradient has its own token stride.
struct ScaledHeadsShape {
  int tokens, heads, head_dim;
};
struct TokenRows {
  void* data;
  std::int64_t token_stride;
};
void scaled_heads_forward(const ScaledHeadsShape& shape, const HeadVectors& x,
                          const TokenNumbers& weights, void* out, Dtype dtype, Stream stream);
void scaled_heads_backward(const ScaledHeadsShape& shape, const HeadVectors& x,
                           const TokenNumbers& weights, const HeadVectors& d_out,
                           const TokenRows& dx, void* d_weights, Dtype dtype, Stream stream);

// gated_values(): channels of n, and of v, that a gate reads.
constexpr int kValueGateWindow = 6;

struct ValueGate {
  TokenNumbers n;       // [tokens, at least kValueGateWindow]
  const float* weight;  // [heads, 2·kValueGateWindow]
};
struct ValueGateGradients {
  TokenRows v;
  TokenRows n;                // added to its first channels; null: not computed
  float* partials = nullptr;  // [CTAs, heads·2·kValueGateWindow]: set by the launcher
  float* weight;              // like the gate's
};
void gated_values_forward(const ScaledHeadsShape& shape, const HeadVectors& v,
                          const ValueGate& gate, void* out, Dtype dtype, Stream stream);
void gated_values_backward(const ScaledHeadsShape& shape, const HeadVectors& v,
                           const ValueGate& gate, const HeadVectors& d_out,
                           ValueGateGradients gradients, Dtype dtype, const Workspace& workspace,
                           Stream stream);

}  // namespace tg::cuda
