#pragma once
#include <ATen/ATen.h>

namespace tg {

// Mixes each position with the previous one by a learned gate per feature:
// y_t = (1 − σ(gate))·x_t + σ(gate)·x_{t−1}, with x_{−1} = 0. x [B, T, D], gate [D].
at::Tensor smear(const at::Tensor& x_btd, const at::Tensor& gate_d);

}  // namespace tg
