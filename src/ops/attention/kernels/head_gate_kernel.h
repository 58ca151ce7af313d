#pragma once
#include "device/launch.h"

namespace tg::cuda {

// Limits of the kernels: the window, and heads·window, since a CTA has one sum per weight and warp
// in shared memory.
constexpr int kMaxGateWindow = 16, kMaxGateWeights = 1024;

// Gate of token t and head h: range·σ(scale·row_scale[t]·Σ_j weight[h, j]·x[t, j]) over the first
// `window` columns j of x (ops/attention/gates/head_gate.h).
struct HeadGateTensors {
  const void* x;  // [tokens, window] in the kernel's dtype; null: no gate
  std::int64_t token_stride;
  const float* row_scale;  // [tokens]; null: 1
  const float* weight;     // [heads, window]
  int window;
  float scale, range;
};
struct HeadGateGradients {
  float* x;         // [tokens, window]
  float* partials;  // workspace [CTAs of the kernel, heads·window]
  float* weight;    // [heads, window]
};

// Adds `gradient` [tokens, window] to the first columns of dx [tokens, width], contiguous.
void add_to_first_columns(const float* gradient, std::int64_t tokens, int window, void* dx,
                          std::int64_t width, Dtype dtype, Stream stream);

}  // namespace tg::cuda
