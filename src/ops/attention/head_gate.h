#pragma once
#include <ATen/ATen.h>

#include <memory>

#include "ops/gemm/normed_input.h"

namespace tg {

// The gradient of a gate's x, passed beside autograd from exclusive attention's backward kernel to
// the QKV projection's, which has the same x and adds it in place. Saves a gradient that is zero
// but for a few channels, and a sum.
struct HeadGateGradient {
  at::Tensor of_x;  // [B·T, w] fp32, where x is scaled by row times the scale
};
// Null: autograd carries the gradient.
using HeadGateGradientPtr = std::shared_ptr<HeadGateGradient>;

// A gate on each head's output y_h (Qiu et al. 2025, with scale and range 1):
//   range·σ(scale·(W_h·x[:w] + b_h))·y_h
struct HeadGateInputs {
  NormedInput x{};      // [B, T, at least w]
  at::Tensor weight{};  // W [heads, w], a parameter; undefined: there is no gate
  at::Tensor bias{};    // b [heads]; undefined: 0
  double scale = 1, range = 1;
  HeadGateGradientPtr x_gradient{};
  bool defined() const { return weight.defined(); }
};

// y [B, T, heads, hd] → as y; y itself where there is no gate. Differentiable in y, x, W and b. The
// gate is computed in x's dtype, from the bias on in the bias's, and rounded to y's.
at::Tensor gated_heads(const at::Tensor& y_bthd, const HeadGateInputs& gate);

// Whether exclusive attention's kernels compute the gate of heads like y's, in fp32: no bias, at
// most 16 channels and 1,024 weights, and an x_gradient, with gradients or without, so that
// recomputation gives the same bits.
bool head_gate_kernels_support(const HeadGateInputs& gate, const at::Tensor& y_bthd);

}  // namespace tg
