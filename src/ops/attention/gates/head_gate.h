#pragma once
#include <ATen/ATen.h>

#include "ops/gemm/normed_input.h"
#include "ops/passed_gradients.h"

namespace tg {

// Inputs of a gate on each head's output y_h (Qiu et al. 2025, with scale = range = 1):
//   range·σ(scale·(W_h·x[:w] + b_h))·y_h
struct HeadGateInputs {
  NormedInput x{};      // [B, T, at least w]
  at::Tensor weight{};  // W [heads, w], a parameter; undefined: there is no gate
  at::Tensor bias{};    // b [heads]; undefined: 0
  double scale = 1, range = 1;
  PassedGradientsPtr passed{};  // if it takes the gradient of x
  bool defined() const { return weight.defined(); }
};

// Applies the gate to y [B, T, heads, hd]; returns y itself without a gate. Differentiable in y, x,
// W and b. The matmul runs in x's dtype, the rest in the bias's dtype if there is a bias; the gate
// is then rounded to y's dtype.
at::Tensor gated_heads(const at::Tensor& y_bthd, const HeadGateInputs& gate);

// Whether exclusive attention's kernels can apply the gate, in fp32, to heads like y's: no bias, at
// most 16 channels and 1,024 weights, and x's gradient is taken. Does not depend on grad mode, so
// that recomputation gives the same bits.
bool head_gate_kernels_support(const HeadGateInputs& gate, const at::Tensor& y_bthd);

// Takes the gate's gradient, if any: adds it to the first channels of dx [B, T, D] in place.
void take_gate_gradient(const PassedGradientsPtr& passed, const at::Tensor& dx_btd);

// Returns x; backward applies take_gate_gradient() to its gradient. For inputs without a QKV
// projection that does so. Precondition: only one operation reads the result, since its gradient is
// modified in place.
at::Tensor with_gate_gradient(const at::Tensor& x_btd, const PassedGradientsPtr& passed);

}  // namespace tg
