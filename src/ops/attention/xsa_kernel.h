#pragma once
#include "ops/attention/head_vectors_kernel.h"

namespace tg::cuda {

struct ExclusiveShape {
  int tokens, heads, kv_heads, head_dim;
};

// y·dy of each head, [B, heads, padded_len], for attention's backward kernel
// (attention_backward_hopper.h). Null: not wanted.
struct RowDelta {
  float* delta;
  int seq_len, padded_len;
};

// Kernels of ops/attention/xsa.h. out, dy and dv are contiguous.
void exclusive_attention_forward(const ExclusiveShape& shape, const HeadVectors& y,
                                 const HeadVectors& v, void* out, Dtype dtype, Stream stream);
void exclusive_attention_backward(const ExclusiveShape& shape, const HeadVectors& y,
                                  const HeadVectors& v, const HeadVectors& d_out, void* dy,
                                  void* dv, const RowDelta& row_delta, Dtype dtype, Stream stream);

}  // namespace tg::cuda
