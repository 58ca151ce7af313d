#pragma once
#include <ATen/ATen.h>

#include "ops/gemm/fp8.h"
#include "ops/passed_gradients.h"

namespace tg {

// Weights of attention's heads that a flow computes for each token, [B, T, heads] each; undefined:
// without this part. Composition comes first, the gate last.
struct TokenHeadWeights {
  at::Tensor exclusive{};    // w of weighted_heads()
  at::Tensor gate{};         // g of weighted_heads()
  at::Tensor pre{}, post{};  // both or none: composed_attention() is added

  bool composes() const { return pre.defined(); }
  bool defined() const { return composes() || exclusive.defined() || gate.defined(); }
};

// Applies the weights `exclusive` w and `gate` g, of which either may be undefined:
//   g_h·(y_h − tanh(w_h)·(y_h·v_h)/max(‖v_h‖², 1e-8)·v_h)
// y [B, T, heads, hd], v [B, T, KV, hd], read if w is defined → [B, T, heads, hd]. Differentiable
// in y, v, w and g. The kernels compute it in fp32 from weights rounded to y's dtype, and in
// backward also PassedGradients::delta if it is taken. `rounding`: see exclusive_attention().
at::Tensor weighted_heads(const at::Tensor& y_bthd, const at::Tensor& v_bthd,
                          const TokenHeadWeights& weights, const PassedGradientsPtr& passed = {},
                          const Fp8Scaling& rounding = {});

}  // namespace tg
