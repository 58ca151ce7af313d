#include "ops/attention/gates/head_gate.h"

#include "ops/attention/kernels/head_gate_kernel.h"
#include "ops/fused.h"
#include "ops/gemm/linear.h"

namespace tg {

at::Tensor gated_heads(const at::Tensor& y_bthd, const HeadGateInputs& gate) {
  if (!gate.defined()) return y_bthd;
  auto z = linear(gate.x.columns(0, gate.weight.size(1)), {gate.weight, {}});
  if (gate.bias.defined()) z = z + gate.bias;
  if (gate.scale != 1) z = z * gate.scale;
  auto gate_value = z.sigmoid();
  if (gate.range != 1) gate_value = gate_value * gate.range;
  return y_bthd * gate_value.to(y_bthd.scalar_type()).unsqueeze(-1);
}

bool head_gate_kernels_support(const HeadGateInputs& gate, const at::Tensor& y_bthd) {
  const auto& weight = gate.weight;
  return use_kernels(y_bthd) && gate.defined() && !gate.bias.defined() &&
         weight.scalar_type() == at::kFloat && weight.is_contiguous() &&
         weight.size(1) <= cuda::kMaxGateWindow && weight.numel() <= cuda::kMaxGateWeights &&
         gate.x.form() != NormedForm::quantized &&
         gate.x.tensor().scalar_type() == y_bthd.scalar_type() && gate.x_gradient;
}

}  // namespace tg
