#pragma once
#include <ATen/ATen.h>

#include "ops/attention/gates/head_gate.h"

namespace tg {

// Exclusive self-attention: removes from each head's output the component along its own value, y −
// (y·v̂)v̂ with v̂ = v / max(‖v‖, 1e-12); v undefined: y itself. y [B, T, heads, hd], v [B, T, KV,
// hd] → [B, T, heads, hd]. With a gate, applies gated_heads() to the result, in the kernels if
// head_gate_kernels_support() it.
at::Tensor exclusive_attention(const at::Tensor& y_bthd, const at::Tensor& v_bthd,
                               const HeadGateInputs& gate = {});

}  // namespace tg
