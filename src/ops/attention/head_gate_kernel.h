#pragma once
#include "device/launch.h"

namespace tg::cuda {

// Limits of the gates that kernels compute: the window, and heads·window, since a block has a sum
// for each weight and warp in shared memory.
constexpr int kMaxGateWindow = 16, kMaxGateWeights = 1024;

// Gates of each token t and head h: range·σ(scale·row_scale[t]·Σ_j weight[h, j]·x[t, j]) over the
// `window` first columns j of x (ops/attention/head_gate.h).
struct HeadGateTensors {
  const void* x;  // [tokens, window], of the kernel's dtype; null: there is no gate
  std::int64_t token_stride;
  const float* row_scale;  // [tokens]; null: 1
  const float* weight;     // [heads, window]
  int window;
  float scale, range;
};
struct HeadGateGradients {
  float* x;         // [tokens, window]
  float* partials;  // workspace [blocks of the kernel, heads·window]
  float* weight;    // [heads, window]
};

// Adds `gradient` [tokens, window] to the first columns of dx [tokens, width], contiguous.
void add_to_first_columns(const float* gradient, std::int64_t tokens, int window, void* dx,
                          std::int64_t width, Dtype dtype, Stream stream);

}  // namespace tg::cuda
