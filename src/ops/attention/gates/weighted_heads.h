#pragma once
#include <ATen/ATen.h>

#include "ops/attention/gates/token_head_weights.h"

namespace tg {

// Applies the weights `exclusive` w and `gate` g, of which either may be undefined:
//   g_h·(y_h − tanh(w_h)·(y_h·v_h)/max(‖v_h‖², 1e-8)·v_h)
// y [B, T, heads, hd], v [B, T, KV, hd], read if w is defined → [B, T, heads, hd]. Differentiable
// in y, v, w and g. The kernels compute it in fp32 from weights rounded to y's dtype.
at::Tensor weighted_heads(const at::Tensor& y_bthd, const at::Tensor& v_bthd,
                          const TokenHeadWeights& weights);

}  // namespace tg
