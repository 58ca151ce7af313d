#include "ops/attention/gates/head_gate.h"

#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "ops/attention/kernels/attention_kernel.h"
#include "ops/fused.h"
#include "ops/gemm/linear.h"
#include "ops/kernels.h"
#include "ops/operands.h"

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
         gate.x.tensor().scalar_type() == y_bthd.scalar_type() && gate.passed &&
         gate.passed->takes_gate_x;
}

namespace {

struct WithGateGradient : torch::autograd::Function<WithGateGradient> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const PassedGradientsPtr& passed) {
    context->saved_data["passed"] = in_capsule(passed);
    return x.variable_data();
  }
  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    take_gate_gradient(from_capsule<PassedGradientsPtr>(context->saved_data["passed"]),
                       upstream[0]);
    return {upstream[0], at::Tensor()};
  }
};

}  // namespace

void take_gate_gradient(const PassedGradientsPtr& passed, const at::Tensor& dx_btd) {
  const auto d_gate_x = passed ? std::exchange(passed->gate_x, {}) : at::Tensor();
  if (!d_gate_x.defined()) return;
  cuda::add_to_first_columns(const_fp32_data(d_gate_x), d_gate_x.size(0),
                             static_cast<int>(d_gate_x.size(1)), mutable_data(dx_btd),
                             dx_btd.size(-1), dtype_of(dx_btd), current_stream(dx_btd));
}

at::Tensor with_gate_gradient(const at::Tensor& x_btd, const PassedGradientsPtr& passed) {
  passed->takes_gate_x = true;
  return WithGateGradient::apply(x_btd, passed);
}

}  // namespace tg
