#include "ops/attention/qkv_proj_norm_rope.h"

#include <torch/csrc/autograd/custom_function.h>

#include <cassert>

#include "ops/attention/head_vectors.h"
#include "ops/attention/qkv_proj_norm_rope_hopper.h"
#include "ops/operands.h"

namespace tg {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// → x·weightᵀ with q and k normalised, rotated and scaled, and their 1/rms. The gradient that it
// gets from fused_qk_norm_rope() is that of the plain x·weightᵀ.
struct FusedQkvProjNormRope : torch::autograd::Function<FusedQkvProjNormRope> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const Weight& weight,
                               const at::Tensor& cos, const at::Tensor& sin,
                               const OptionalTensor& q_gain, std::int64_t heads,
                               std::int64_t kv_heads, std::int64_t channels) {
    const auto batch = x.size(0), tokens = x.size(1);
    const auto qkv = at::empty({batch, tokens, weight.value.size(0)}, x.options());
    const auto inverse_rms =
        at::empty({batch, tokens, heads + kv_heads}, x.options().dtype(at::kFloat));
    const auto operands = gemm_operands(x, weight);
    cuda::qkv_proj_norm_rope(
        qkv_shape(qkv, cos, heads, kv_heads, channels), static_cast<int>(x.size(2)),
        const_data(operands.x), const_data(operands.weight), operands.fp8, const_data(cos),
        const_data(sin), const_fp32_data(or_undefined(q_gain)), mutable_data(qkv),
        mutable_fp32_data(inverse_rms), dtype_of(x), current_stream(x));
    context->save_for_backward({x, weight.value});
    context->saved_data["weight"] = in_capsule(weight);
    context->mark_non_differentiable({inverse_rms});
    context->set_materialize_grads(false);  // else zeros are written for inverse_rms
    return {qkv, inverse_rms};
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto weight = from_capsule<Weight>(context->saved_data["weight"]);
    const auto dx = linear_backward(context->get_saved_variables()[0], weight, upstream[0]);
    const at::Tensor none;
    return {dx, none, none, none, none, none, none, none};
  }
};

bool supported(const at::Tensor& x, const Weight& weight, const QkvInputs& in,
               const RopeTable& table) {
  const auto head_dim = weight.value.size(0) / (in.heads + 2 * in.kv_heads);
  return supports_hopper_gemm(x, weight.value) &&
         qk_norm_rope_kernels_support(x, head_dim, in, table) &&
         cuda::qkv_proj_norm_rope_supports(head_dim, table.cos.size(1)) &&
         (weight.gradient.defined() || !at::GradMode::is_enabled());
}

}  // namespace

Qkv qkv_proj_norm_rope(const at::Tensor& x, const Weight& weight, const QkvInputs& in,
                       const RopeTable& table) {
  if (supported(x, weight, in, table)) {
    // Else autograd would not call backward, which adds the weight's gradient.
    assert(x.requires_grad() || !at::GradMode::is_enabled());
    const auto out =
        FusedQkvProjNormRope::apply(aligned_contiguous(x), weight, table.cos, table.sin,
                                    optional_tensor(in.q_gain), in.heads, in.kv_heads, in.channels);
    return fused_qk_norm_rope(out[0], out[1], in, table, weight.fp8.output_gradient);
  }
  return qk_norm_rope(linear(x, weight), in, table);
}

Qkv qkv_proj_norm_rope_of_queries(const at::Tensor& x, const Weight& weight, const QkvInputs& in,
                                  const RopeTable& table, std::int64_t first, std::int64_t count) {
  const at::NoGradGuard no_grad;
  if (count == x.size(1)) return qkv_proj_norm_rope(x, weight, in, table);
  // Two projections: one without queries, one of queries alone.
  const auto rows = weight.value.size(0), heads_and_kv = in.heads + 2 * in.kv_heads;
  const auto q_rows = rows / heads_and_kv * in.heads;
  auto of_kv = in;
  of_kv.heads = 0;
  of_kv.q_gain = at::Tensor();
  auto qkv =
      qkv_proj_norm_rope(x, {weight.value.narrow(0, q_rows, rows - q_rows), {}}, of_kv, table);
  qkv.q = qkv_proj_norm_rope(
              x.narrow(1, first, count), {weight.value.narrow(0, 0, q_rows), {}},
              {.heads = in.heads, .kv_heads = 0, .q_gain = in.q_gain, .channels = in.channels},
              {table.cos.narrow(0, first, count), table.sin.narrow(0, first, count)})
              .q;
  return qkv;
}

}  // namespace tg
