#pragma once
#include <ATen/ATen.h>

#include "ops/attention/head_gate.h"

namespace tg {

// Adds what a gate's kernel has left, if it has, to the first channels of dx [B, T, D], in place.
void add_gate_gradient(const HeadGateGradientPtr& gate, const at::Tensor& dx_btd);

// x itself. What comes before it gets as gradient that of the result, which one operation alone may
// read, with add_gate_gradient()'s: where no QKV projection adds it to its own.
at::Tensor with_gate_gradient(const at::Tensor& x_btd, const HeadGateGradientPtr& gate);

}  // namespace tg
