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

// x·weightᵀ in which q and k are normalised, rotated and gained, and the factors of their norms.
// What fused_heads() carries back to it is the gradient of the plain product.
struct TurnedProjection : torch::autograd::Function<TurnedProjection> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x,
                               const at::Tensor& value, const Operand& gradient,
                               const at::Tensor& cos, const at::Tensor& sin, const Operand& q_gain,
                               std::int64_t heads, std::int64_t kv_heads) {
    const auto batch = x.size(0), tokens = x.size(1);
    const auto qkv = at::empty({batch, tokens, value.size(0)}, x.options());
    const auto inverse_rms =
        at::empty({batch, tokens, heads + kv_heads}, x.options().dtype(at::kFloat));
    cuda::project_heads(head_shape(qkv, cos, heads, kv_heads), static_cast<int>(x.size(2)), read(x),
                        read(value), read(cos), read(sin), read_fp32(given(q_gain)), write(qkv),
                        write_fp32(inverse_rms), current_stream(x));
    context->save_for_backward({x, value});
    context->saved_data["gradient"] = gradient;
    context->mark_non_differentiable({inverse_rms});
    context->set_materialize_grads(false);  // or zeros would be written for inverse_rms
    return {qkv, inverse_rms};
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto saved = context->get_saved_variables();
    const auto gradient = context->saved_data["gradient"].toTensor();
    const auto dx = linear_backward(saved[0], saved[1], gradient, upstream[0]);
    const at::Tensor none;
    return {dx, none, none, none, none, none, none, none};
  }
};

bool supported(const at::Tensor& x, const Weight& weight, const HeadInputs& in,
               const RopeTable& table) {
  const auto head_dim = weight.value.size(0) / (in.heads + 2 * in.kv_heads);
  return is_hopper_product(x, weight.value) && kernels_take_heads(x, head_dim, in, table) &&
         cuda::can_project_heads(head_dim, table.cos.size(1)) &&
         (weight.gradient.defined() || !at::GradMode::is_enabled());
}

}  // namespace

Heads projected_heads(const at::Tensor& x, const Weight& weight, const HeadInputs& in,
                      const RopeTable& table) {
  if (supported(x, weight, in, table)) {
    // Or no backward pass would come here.
    assert(x.requires_grad() || !at::GradMode::is_enabled());
    const auto out =
        TurnedProjection::apply(packed(x), weight.value, operand(weight.gradient), table.cos,
                                table.sin, operand(in.q_gain), in.heads, in.kv_heads);
    return fused_heads(out[0], out[1], in, table);
  }
  return attention_heads(linear(x, weight), in, table);
}

}  // namespace tg
