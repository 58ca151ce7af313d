#pragma once
#include <ATen/ATen.h>

namespace tg {

// A gate on each head's output y_h (Qiu et al. 2025, with scale and range 1):
//   range·σ(scale·(W_h·x + b_h))·y_h
struct HeadGateInputs {
  at::Tensor x{};       // [B, T, w]
  at::Tensor weight{};  // W [heads, w], a parameter; undefined: there is no gate
  at::Tensor bias{};    // b [heads]; undefined: 0
  double scale = 1, range = 1;
  bool defined() const { return weight.defined(); }
};

// y [B, T, heads, hd] → as y. Differentiable in y, x, W and b. The gate is computed in x's dtype,
// from the bias on in the bias's, and rounded to y's.
at::Tensor gated_heads(const at::Tensor& y_bthd, const HeadGateInputs& gate);

}  // namespace tg
