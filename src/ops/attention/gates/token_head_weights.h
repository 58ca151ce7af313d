#pragma once
#include <ATen/ATen.h>

namespace tg {

// Weights of attention's heads that a flow computes for each token, [B, T, heads] each; undefined:
// without this part. Applied in this order to attention's output y.
struct TokenHeadWeights {
  at::Tensor pre{}, post{};  // both or none: composed_attention() is added
  at::Tensor exclusive{};    // weighted_exclusive_attention()
  at::Tensor gate{};         // y_h = gate_h·y_h

  bool composes() const { return pre.defined(); }
  bool defined() const { return composes() || exclusive.defined() || gate.defined(); }
};

}  // namespace tg
