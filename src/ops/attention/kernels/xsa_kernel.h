#pragma once
#include "ops/attention/kernels/head_gate_kernel.h"
#include "ops/attention/kernels/head_vectors_kernel.h"

namespace tg::cuda {

struct ExclusiveShape {
  int tokens, heads, kv_heads, head_dim;
};

// delta = rowsum(y ∘ dy) [B, heads, padded_len], for attention's backward kernel
// (attention_backward_hopper.h). Null: not computed.
struct RowDelta {
  float* delta;
  int seq_len, padded_len;
};

struct ExclusiveInputs {
  HeadVectors y, v;
  HeadGateTensors gate{};
};
struct ExclusiveGradients {
  void *y, *v;
  RowDelta row_delta{};
  HeadGateGradients gate{};  // if there is a gate
};

// Kernels of ops/attention/gates/xsa.h. out and the gradients are contiguous.
void exclusive_attention_forward(const ExclusiveShape& shape, const ExclusiveInputs& in, void* out,
                                 Dtype dtype, Stream stream);
void exclusive_attention_backward(const ExclusiveShape& shape, const ExclusiveInputs& in,
                                  const HeadVectors& d_out, const ExclusiveGradients& out,
                                  Dtype dtype, Stream stream);
// Number of CTAs of the backward kernel with a gate; each writes a row of partial sums.
int gated_exclusive_backward_blocks(const ExclusiveShape& shape);

}  // namespace tg::cuda
