#pragma once
#include <ATen/ATen.h>

namespace tg {

// Mixes each position with the previous one by a learned gate per feature: y_t = (1 − σ(gate))·x_t
// + σ(gate)·x_{t−1}, with x_{t−1} = 0 at the beginning of a document. x [B, T, D], gate [D]. `ends`
// [B, T] int32: for each token, the position in its row at which its document ends; undefined: a
// row is one document.
at::Tensor smear(const at::Tensor& x_btd, const at::Tensor& gate_d, const at::Tensor& ends_bt = {});

}  // namespace tg
