#include "ops/attention/gates/xsa.h"

#include <torch/csrc/autograd/custom_function.h>

#include "ops/attention/gates/xsa_on_tensors.h"
#include "ops/attention/kernels/head_vectors.h"
#include "ops/operands.h"

namespace tg {

namespace {

bool supported(const at::Tensor& y, const at::Tensor& v) {
  return (!v.defined() || y.scalar_type() == v.scalar_type()) && supports_head_dim(y.size(3), y);
}

struct FusedExclusiveAttention : torch::autograd::Function<FusedExclusiveAttention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& y, const OptionalTensor& v,
                            const OptionalTensor&, const HeadGateInputs& gate,
                            const Fp8Scaling& rounding) {
    context->set_materialize_grads(false);
    const auto [x, row_scale, weight] = save_gate(gate, *context);
    context->save_for_backward({y, or_undefined(v), x, row_scale, weight});
    return exclusive_forward(y, or_undefined(v), gate, rounding);
  }
  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    if (!upstream[0].defined()) return variable_list(5);
    const auto saved = context->get_saved_variables();
    const auto gate = saved_gate({saved[2], saved[3], saved[4]}, *context);
    const auto d = exclusive_backward(saved[0], saved[1], gate, readable_heads(upstream[0]));
    return {d.dy, d.dv, d.d_gate_weight, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor exclusive_attention(const at::Tensor& y_bthd, const at::Tensor& v_bthd,
                               const HeadGateInputs& gate, const Fp8Scaling& rounding) {
  if (!v_bthd.defined() && !gate.defined()) return y_bthd;
  const bool by_kernels = use_kernels(y_bthd) && supported(y_bthd, v_bthd);
  if (gate.defined() && !(by_kernels && head_gate_kernels_support(gate, y_bthd)))
    return gated_heads(exclusive_attention(y_bthd, v_bthd), gate);
  if (by_kernels)
    return FusedExclusiveAttention::apply(readable_heads(y_bthd),
                                          optional_tensor(readable_heads(v_bthd)),
                                          optional_tensor(gate.weight), gate, rounding);
  const auto kv_heads = v_bthd.size(2);
  // Broadcasts v [B, T, KV, 1, hd] over y [B, T, KV, heads of the group, hd].
  const auto y = y_bthd.unflatten(2, {kv_heads, y_bthd.size(2) / kv_heads});
  const auto v = v_bthd / v_bthd.norm(2, -1, /*keepdim=*/true).clamp_min(1e-12);
  const auto v_unit = v.unsqueeze(3);
  return (y - (y * v_unit).sum(-1, /*keepdim=*/true) * v_unit).flatten(2, 3);
}

at::Tensor weighted_exclusive_attention(const at::Tensor& y_bthd, const at::Tensor& v_bthd,
                                        const at::Tensor& weight_bth) {
  const auto kv_heads = v_bthd.size(2);
  const auto y = y_bthd.unflatten(2, {kv_heads, y_bthd.size(2) / kv_heads});
  const auto v = v_bthd.unsqueeze(3);
  const auto squares = v.square().sum(-1, /*keepdim=*/true).clamp_min(1e-8);
  const auto share = (y * v).sum(-1, /*keepdim=*/true) / squares;
  const auto weight = weight_bth.to(y.scalar_type()).tanh().view_as(share);
  return (y - weight * share * v).flatten(2, 3);
}

}  // namespace tg
