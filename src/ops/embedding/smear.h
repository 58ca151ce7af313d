#pragma once
#include <ATen/ATen.h>

#include <cstdint>

namespace tg {

// Mixes each position with the previous one by a learned gate per feature: y_t = (1 − σ(gate))·x_t
// + σ(gate)·x_{t−1}, with x_{t−1} = 0 at the beginning of a document. x [B, T, D], gate [D]. `ends`
// [B, T] int32: for each token, the position in its row at which its document ends; undefined: a
// row is one document.
at::Tensor smear(const at::Tensor& x_btd, const at::Tensor& gate_d, const at::Tensor& ends_bt = {});

// Adds to each position the previous one of its document, scaled by a gate:
//   y_t = x_t + λ·σ(w·x_t[:W])·x_{t−1}
// for t ≥ 1 if ids_t is not `bos_id`; else y_t = x_t.
struct SmearGate {
  static constexpr std::int64_t kNoBos = -1;  // no token begins a document

  at::Tensor weight_1w;     // w [1, W], W at most the width of x; undefined: no gate
  at::Tensor lambda_1;      // λ [1]
  std::int64_t bos_id = 0;  // begins a document
  bool defined() const { return weight_1w.defined(); }
};

// x [B, T, D], ids [B, T] int64 → [B, T, D]. Differentiable in x, w and λ.
at::Tensor gated_smear(const at::Tensor& x_btd, const at::Tensor& ids_bt, const SmearGate& gate);

}  // namespace tg
