#pragma once
#include <ATen/ATen.h>

#include "ops/attention/head_gate.h"

namespace tg {

// Adds what a gate's kernel has left, if it has, to the first channels of dx [B, T, D], in place.
void add_gate_gradient(const HeadGateGradientPtr& gate, const at::Tensor& dx_btd);

// Returns x itself. The operation before it gets the result's gradient, plus add_gate_gradient()'s.
// For a result that one operation alone reads, where no QKV projection adds the gate's gradient to
// its own.
at::Tensor with_gate_gradient(const at::Tensor& x_btd, const HeadGateGradientPtr& gate);

}  // namespace tg
