#pragma once
#include <ATen/ATen.h>

#include "ops/shared_gradient.h"

namespace tg {

// A small network that gives k numbers for each token.
struct TokenGateWeights {
  at::Tensor w1;  // [hidden, D]
  at::Tensor w2;  // [k, hidden]
  at::Tensor b2;  // [k]
};

// gate(x) = γ·(W2·gelu(W1·x) + b2) with the exact (erf) GELU (Hendrycks and Gimpel 2016): x [B, T,
// D] → [B, T, k]. γ is a number, or a parameter [] of any floating dtype. Differentiable in x, the
// weights and γ. Computed in x's dtype, to which weights are cast.
at::Tensor token_gates(const SharedTensor& x_btd, const TokenGateWeights& weights, double gamma);
at::Tensor token_gates(const SharedTensor& x_btd, const TokenGateWeights& weights,
                       const at::Tensor& gamma);

}  // namespace tg
