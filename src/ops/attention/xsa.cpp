#include "ops/attention/xsa.h"

#include <torch/csrc/autograd/custom_function.h>

#include "ops/attention/head_vectors.h"

namespace tg {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool supported(const at::Tensor& y, const at::Tensor& v) {
  return y.scalar_type() == v.scalar_type() && supports_head_dim(y.size(3), y);
}

struct FusedExclusiveAttention : torch::autograd::Function<FusedExclusiveAttention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& y, const at::Tensor& v) {
    context->set_materialize_grads(false);
    context->save_for_backward({y, v});
    auto out = at::empty(y.sizes(), y.options());
    cuda::exclusive_attention_forward(exclusive_shape(y, v), head_vectors(y), head_vectors(v),
                                      mutable_data(out), dtype_of(y), current_stream(y));
    return out;
  }
  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    if (!upstream[0].defined()) return {at::Tensor(), at::Tensor()};
    const auto saved = context->get_saved_variables();
    const auto &y = saved[0], &v = saved[1];
    const auto d_out = readable_heads(upstream[0]);
    auto dy = at::empty(y.sizes(), y.options()), dv = at::empty(v.sizes(), v.options());
    cuda::exclusive_attention_backward(exclusive_shape(y, v), head_vectors(y), head_vectors(v),
                                       head_vectors(d_out), mutable_data(dy), mutable_data(dv),
                                       /*row_delta=*/{}, dtype_of(y), current_stream(y));
    return {dy, dv};
  }
};

}  // namespace

at::Tensor exclusive_attention(const at::Tensor& y_bthd, const at::Tensor& v_bthd) {
  if (use_kernels(y_bthd) && supported(y_bthd, v_bthd))
    return FusedExclusiveAttention::apply(readable_heads(y_bthd), readable_heads(v_bthd));
  const auto kv_heads = v_bthd.size(2);
  // [B, T, KV, heads of the group, hd] against [B, T, KV, 1, hd].
  const auto y = y_bthd.unflatten(2, {kv_heads, y_bthd.size(2) / kv_heads});
  const auto v = v_bthd / v_bthd.norm(2, -1, /*keepdim=*/true).clamp_min(1e-12);
  const auto v_unit = v.unsqueeze(3);
  return (y - (y * v_unit).sum(-1, /*keepdim=*/true) * v_unit).flatten(2, 3);
}

}  // namespace tg
