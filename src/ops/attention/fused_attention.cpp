#include "ops/attention/fused_attention.h"

#include <ATen/Context.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>
#include <utility>

#include "ops/attention/attention_workspace.h"
#include "ops/attention/gates/xsa.h"
#include "ops/attention/gates/xsa_on_tensors.h"
#include "ops/attention/kernels/attention_forward_hopper.h"
#include "ops/operands.h"

namespace tg {

AttentionForward hopper_attention(const at::Tensor& q_bthd, const at::Tensor& k_bthd,
                                  const at::Tensor& v_bthd, double scale,
                                  const std::optional<Documents>& documents, std::int64_t window) {
  const auto q = readable_heads(q_bthd), k = readable_heads(k_bthd), v = readable_heads(v_bthd);
  const auto from = visible_from(k, documents, window);
  const auto options = q.options().requires_grad(false);
  auto y = at::empty(q.sizes(), options);
  auto logsumexp = at::empty({q.size(0), q.size(2), q.size(1)}, options.dtype(at::kFloat));
  const auto next_tile = at::empty({}, options.dtype(at::kInt));
  cuda::attention_forward(attention_shape(q, k, scale),
                          {.q = head_vectors(q),
                           .k = head_vectors(k),
                           .v = head_vectors(v),
                           .visible_from = from.const_data_ptr<int>()},
                          {.y = mutable_data(y),
                           .logsumexp = mutable_fp32_data(logsumexp),
                           .next_tile = next_tile.mutable_data_ptr<int>()},
                          dtype_of(q), current_stream(q));
  return {y, logsumexp};
}

bool hopper_attention_supports(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  return q.is_cuda() && use_hopper_kernels(q) && at::globalContext().userEnabledCuDNNSDP() &&
         k.scalar_type() == q.scalar_type() && v.scalar_type() == q.scalar_type() &&
         (q.size(3) == 64 || q.size(3) == 128) &&
         q.size(0) * q.size(1) * q.size(2) <
             std::numeric_limits<int>::max() / cuda::kAttentionBlock &&
         q.size(1) > 1;
}

namespace {

AttentionForward whole_row_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                     double scale) {
  const auto results = at::_scaled_dot_product_cudnn_attention(
      q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), /*attn_bias=*/{},
      /*compute_log_sumexp=*/true, /*dropout_p=*/0.0, /*is_causal=*/true,
      /*return_debug_mask=*/false, scale);
  return {std::get<0>(results).transpose(1, 2), std::get<1>(results)};
}

struct FusedAttention : torch::autograd::Function<FusedAttention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const OptionalTensor& exclusive_v,
                            const OptionalTensor&, double scale, const AttentionOptions& options) {
    const auto& gate = options.gate;
    const auto& documents = options.documents;
    const auto window = options.window;
    const auto& passed = options.passed;
    const auto [y, logsumexp] = !documents && window == 0
                                    ? whole_row_attention(q, k, v, scale)
                                    : hopper_attention(q, k, v, scale, documents, window);
    // Otherwise exclusive_backward() writes delta to the workspace.
    const bool tail = exclusive_v || gate.defined();
    if (passed) passed->takes_delta = options.reader_passes_delta && !tail;
    const auto [gate_x, gate_row_scale, gate_weight] = save_gate(gate, *context);
    context->save_for_backward({q, k, v, y, logsumexp, visible_until(k, documents, window), gate_x,
                                gate_row_scale, gate_weight});
    context->saved_data["scale"] = scale;
    context->saved_data["exclusive"] = exclusive_v.has_value();
    context->saved_data["passed"] = in_capsule(passed);
    if (!tail) return y;
    return exclusive_forward(readable_heads(y), exclusive_v ? readable_heads(v) : at::Tensor(),
                             gate, options.rounding);
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto saved = context->get_saved_variables();
    const auto q = readable_heads(saved[0]), k = readable_heads(saved[1]),
               v = readable_heads(saved[2]), y = readable_heads(saved[3]);
    auto dy = readable_heads(upstream[0]);
    const auto logsumexp = saved[4].contiguous(), until = saved[5];
    const auto shape = attention_shape(q, k, context->saved_data["scale"].toDouble());
    const AttentionWorkspace workspace(shape, q.device());
    const auto passed = from_capsule<PassedGradientsPtr>(context->saved_data["passed"]);
    const bool passes_q = passed && passed->takes_q;
    auto dq = passes_q ? at::Tensor() : at::empty(q.sizes(), q.options());
    auto dk = at::empty(k.sizes(), k.options()), dv = at::empty(v.sizes(), v.options());
    at::Tensor exclusive_dv, d_gate_weight;
    const bool exclusive = context->saved_data["exclusive"].toBool();
    const bool tail = exclusive || saved[8].defined();
    if (tail) {
      const auto gate = saved_gate({saved[6], saved[7], saved[8]}, *context);
      const auto d =
          exclusive_backward(y, exclusive ? v : at::Tensor(), gate, dy, workspace.row_delta(shape));
      dy = d.dy, exclusive_dv = d.dv, d_gate_weight = d.d_gate_weight;
    }
    const auto dots = passed ? std::exchange(passed->delta, {}) : at::Tensor();
    const bool has_dots = dots.defined() || tail;
    cuda::attention_backward(
        shape,
        {.q = head_vectors(q),
         .k = head_vectors(k),
         .v = head_vectors(v),
         .out = has_dots ? cuda::HeadVectors{} : head_vectors(y),
         .d_out = head_vectors(dy),
         .delta_parts = const_fp32_data(dots),
         .parts = dots.defined() ? static_cast<int>(dots.size(0)) / shape.heads : 1,
         .logsumexp = const_fp32_data(logsumexp),
         .visible_until = until.defined() ? until.const_data_ptr<int>() : nullptr},
        workspace.gradients(dq, dk, dv), dtype_of(q), current_stream(q));
    if (passes_q) passed->q_sum = workspace.q_sum;
    const at::Tensor none;
    return {dq, dk, dv, exclusive_dv, d_gate_weight, none, none};
  }
};

}  // namespace

bool fused_attention_supports(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  return at::GradMode::is_enabled() &&
         (q.requires_grad() || k.requires_grad() || v.requires_grad()) &&
         hopper_attention_supports(q, k, v);
}

at::Tensor fused_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           double scale, const AttentionOptions& options) {
  auto fused = options;
  HeadGateInputs separate_gate;
  if (!head_gate_kernels_support(options.gate, q)) separate_gate = std::exchange(fused.gate, {});
  if (separate_gate.defined()) fused.rounding = {};
  const auto y = FusedAttention::apply(q, k, v, optional_tensor(options.exclusive_v),
                                       optional_tensor(fused.gate.weight), scale, fused);
  return gated_heads(y, separate_gate);
}

}  // namespace tg
