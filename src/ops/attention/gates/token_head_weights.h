#pragma once
#include <ATen/ATen.h>

namespace tg {

// Weights of attention's heads that a flow computes for each token, [B, T, heads] each; undefined:
// without this part. Composition comes first, the gate last.
struct TokenHeadWeights {
  at::Tensor exclusive{};    // weighted_exclusive_attention()
  at::Tensor gate{};         // y_h = gate_h·y_h
  at::Tensor pre{}, post{};  // both or none: composed_attention() is added

  bool composes() const { return pre.defined(); }
  bool defined() const { return composes() || exclusive.defined() || gate.defined(); }
};

}  // namespace tg
