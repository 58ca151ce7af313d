#pragma once
#include <ATen/ATen.h>

#include "ops/attention/head_gate.h"

namespace tg {

// Exclusive self attention: removes from each head's output the part along its own value,
// y − (y·v̂)v̂ with v̂ = v / max(‖v‖, 1e-12). y [B, T, heads, hd], v [B, T, KV, hd] → as y. With a
// gate gated_heads() of that, which the kernels compute where head_gate_kernels_support() it.
at::Tensor exclusive_attention(const at::Tensor& y_bthd, const at::Tensor& v_bthd,
                               const HeadGateInputs& gate = {});

}  // namespace tg
