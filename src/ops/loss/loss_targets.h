#pragma once
#include <ATen/ATen.h>

#include <cstdint>

namespace tg {

// Weighted targets of one softmax. The loss of row n, with log p = log_softmax(s), is
//   loss_n = −Σ_k weights[n, k]·log p[ids[n, k]]
// and dloss_n/ds = mass[n]·p − Σ_k weights[n, k]·onehot(ids[n, k]). A mass other than the sum of
// the weights gives another gradient than the loss has.
struct LossTargets {
  LossTargets(const at::Tensor& ids_n) : ids(ids_n) {}  // one target of weight 1
  // ids [N, K] int64, of which the first of a row is a token; weights [N, K] and mass [N] fp32.
  // Others may be −1 where their weight is 0.
  LossTargets(const at::Tensor& ids_nk, const at::Tensor& weights_nk, const at::Tensor& mass_n)
      : ids(ids_nk), weights(weights_nk), mass(mass_n) {}

  bool weighted() const { return weights.defined(); }
  LossTargets rows(std::int64_t first, std::int64_t count) const {
    const auto part = [&](const at::Tensor& all) {
      return all.defined() ? all.narrow(0, first, count) : all;
    };
    return {part(ids), part(weights), part(mass)};
  }
  LossTargets contiguous() const {
    const auto whole = [](const at::Tensor& x) { return x.defined() ? x.contiguous() : x; };
    return {ids.contiguous(), whole(weights), whole(mass)};
  }
  std::int64_t count() const { return ids.dim() == 1 ? 1 : ids.size(1); }
  at::Tensor first() const { return ids.dim() == 1 ? ids : ids.select(1, 0); }

  at::Tensor ids, weights, mass;
};

// Targets of training beyond the next token y: the tokens after it, and the longest token that is a
// proper prefix of y (record 89 of the GPT-124M speedrun, 2026-08-01).
struct FurtherTargets {
  at::Tensor weights;   // [K + 1] fp32: of y and the K − 1 tokens after it, then of the prefix
  at::Tensor prefixes;  // [V] int64: of each token, −1: none; undefined: no prefix targets
};
// Returns the targets of rows y [B, T] int64, of all B·T positions. A target beyond the row's end
// has no loss, but its weight counts in the mass, as in the record.
LossTargets with_further_targets(const at::Tensor& y_bt, const FurtherTargets& further);

}  // namespace tg
