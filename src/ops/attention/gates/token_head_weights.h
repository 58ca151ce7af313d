#pragma once
#include <ATen/ATen.h>

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

}  // namespace tg
