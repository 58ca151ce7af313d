#pragma once
#include <ATen/ATen.h>

#include "ops/attention/gates/head_gate.h"

namespace tg {

// Exclusive self-attention: removes from each head's output the component along its own value, y −
// (y·v̂)v̂ with v̂ = v / max(‖v‖, 1e-12); v undefined: y itself. y [B, T, heads, hd], v [B, T, KV,
// hd] → [B, T, heads, hd]. With a gate, applies gated_heads() to the result, in the kernels if
// head_gate_kernels_support() it. With `rounding` the kernels quantize the result for its FP8 GEMM
// (cached_fp8_copy()), if they compute the last of both.
at::Tensor exclusive_attention(const at::Tensor& y_bthd, const at::Tensor& v_bthd,
                               const HeadGateInputs& gate = {}, const Fp8Scaling& rounding = {});

// Removes a share of that component, given by a weight w for each token and head:
//   y_h − tanh(w_h)·(y_h·v_h)/max(‖v_h‖², 1e-8)·v_h
// y [B, T, heads, hd], v [B, T, KV, hd], w [B, T, heads] → [B, T, heads, hd]. Differentiable in y,
// v and w.
at::Tensor weighted_exclusive_attention(const at::Tensor& y_bthd, const at::Tensor& v_bthd,
                                        const at::Tensor& weight_bth);

}  // namespace tg
