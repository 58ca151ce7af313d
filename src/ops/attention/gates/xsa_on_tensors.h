#pragma once
// xsa.h's kernels on tensors, for autograd Functions.
#include <ATen/ATen.h>

#include <array>

#include "ops/attention/gates/head_gate.h"
#include "ops/attention/kernels/attention_kernel.h"
#include "ops/operands.h"

namespace tg {

// Saves a gate from forward() for backward(): save_gate() returns the tensors for
// save_for_backward() and stores the rest in `context`.
using SavedGate = std::array<at::Tensor, 3>;
SavedGate save_gate(const HeadGateInputs& gate, AutogradContext& context);
HeadGateInputs saved_gate(const SavedGate& tensors, AutogradContext& context);

// Preconditions: y [B, T, heads, hd] and v [B, T, KV, hd] are from readable_heads(); the gate is
// undefined, or head_gate_kernels_support() it. v undefined: the gate alone. `rounding`: see
// exclusive_attention().
at::Tensor exclusive_forward(const at::Tensor& y_bthd, const at::Tensor& v_bthd,
                             const HeadGateInputs& gate, const Fp8Scaling& rounding);
struct ExclusiveBackward {
  at::Tensor dy, dv, d_gate_weight;  // undefined: dv without v, the last without a gate
};
// Also writes x's gradient to gate.passed, and rowsum(y ∘ dy) to `row_delta` if not null.
ExclusiveBackward exclusive_backward(const at::Tensor& y_bthd, const at::Tensor& v_bthd,
                                     const HeadGateInputs& gate, const at::Tensor& d_out,
                                     const cuda::RowDelta& row_delta = {});

}  // namespace tg
