#include "ops/attention/head_gate.h"

#include "ops/gemm/linear.h"

namespace tg {

at::Tensor gated_heads(const at::Tensor& y_bthd, const HeadGateInputs& gate) {
  auto z = linear(gate.x, {gate.weight, {}});
  if (gate.bias.defined()) z = z + gate.bias;
  if (gate.scale != 1) z = z * gate.scale;
  auto share = z.sigmoid();
  if (gate.range != 1) share = share * gate.range;
  return y_bthd * share.to(y_bthd.scalar_type()).unsqueeze(-1);
}

}  // namespace tg
