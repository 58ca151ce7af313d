#pragma once
#include <ATen/ATen.h>

#include "ops/attention/gates/head_gate.h"

namespace tg {

// Adds the gate's pending gradient, if any, to the first channels of dx [B, T, D] in place, and
// clears it.
void add_gate_gradient(const HeadGateGradientPtr& gate, const at::Tensor& dx_btd);

// Returns x; backward applies add_gate_gradient() to its gradient. For inputs without a QKV
// projection that does so. Precondition: only one operation reads the result, since its gradient is
// modified in place.
at::Tensor with_gate_gradient(const at::Tensor& x_btd, const HeadGateGradientPtr& gate);

}  // namespace tg
