#pragma once
// The kernels of xsa.h on tensors, for autograd Functions.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>

#include "ops/attention/head_gate.h"
#include "ops/attention/xsa_kernel.h"

namespace tg {

// A gate between forward() and backward(): what save_for_backward() is to have of it, and the rest.
using SavedGate = std::array<at::Tensor, 3>;
SavedGate save_gate(const HeadGateInputs& gate, torch::autograd::AutogradContext& context);
HeadGateInputs saved_gate(const SavedGate& tensors, torch::autograd::AutogradContext& context);

// y [B, T, heads, hd] and v [B, T, KV, hd] from readable_heads(); a gate that
// head_gate_kernels_support(), or none.
at::Tensor exclusive_forward(const at::Tensor& y_bthd, const at::Tensor& v_bthd,
                             const HeadGateInputs& gate);
struct ExclusiveBackward {
  at::Tensor dy, dv, d_gate_weight;  // the last undefined without a gate
};
// Leaves x's gradient in gate.x_gradient, and y·dy in `row_delta`.
ExclusiveBackward exclusive_backward(const at::Tensor& y_bthd, const at::Tensor& v_bthd,
                                     const HeadGateInputs& gate, const at::Tensor& d_out,
                                     const cuda::RowDelta& row_delta = {});

}  // namespace tg
