#pragma once
// Kernels of heads with a weight for each token: ops/attention/gates/weighted_heads.h.
#include "ops/attention/kernels/attention_kernel.h"

namespace tg::cuda {

// A number for each token and head, [tokens, heads] in the kernel's dtype; the heads of a token are
// contiguous.
struct TokenWeights {
  const void* data;
  std::int64_t token_stride;  // in elements
};

struct WeightedHeadsInputs {
  HeadVectors y, v;              // v: null without `exclusive`
  TokenWeights exclusive, gate;  // null: without this part
};
// Contiguous; those of absent inputs are null.
struct WeightedHeadsGradients {
  void *y, *v, *exclusive, *gate;
};

// out is contiguous.
void weighted_heads_forward(const ExclusiveShape& shape, const WeightedHeadsInputs& in, void* out,
                            Dtype dtype, Stream stream);
void weighted_heads_backward(const ExclusiveShape& shape, const WeightedHeadsInputs& in,
                             const HeadVectors& d_out, const WeightedHeadsGradients& out,
                             Dtype dtype, Stream stream);

}  // namespace tg::cuda
