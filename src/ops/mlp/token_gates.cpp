#include "ops/mlp/token_gates.h"

#include "ops/gemm/linear.h"

namespace tg {

namespace {

// Without γ.
at::Tensor network(const SharedTensor& x, const TokenGateWeights& weights) {
  const auto hidden = at::gelu(linear(x, {weights.w1, {}}));
  return linear(hidden, {weights.w2, {}}) + weights.b2.to(x.tensor.scalar_type());
}

}  // namespace

at::Tensor token_gates(const SharedTensor& x_btd, const TokenGateWeights& weights, double gamma) {
  return network(x_btd, weights) * gamma;
}

at::Tensor token_gates(const SharedTensor& x_btd, const TokenGateWeights& weights,
                       const at::Tensor& gamma) {
  return network(x_btd, weights) * gamma.to(x_btd.tensor.scalar_type());
}

}  // namespace tg
