#include "ops/attention/gates/scaled_heads.h"

#include <torch/csrc/autograd/custom_function.h>

#include <limits>

#include "ops/attention/kernels/head_vectors.h"
#include "ops/operands.h"

namespace tg {

namespace {

cuda::ScaledHeadsShape shape_of(const at::Tensor& x, std::int64_t heads, std::int64_t head_dim) {
  return {.tokens = static_cast<int>(x.size(0) * x.size(1)),
          .heads = static_cast<int>(heads),
          .head_dim = static_cast<int>(head_dim)};
}

bool kernels_support(const at::Tensor& x, std::int64_t head_dim) {
  return use_kernels(x) && supports_head_dim(head_dim, x) && x.size(2) % pack_size(x) == 0 &&
         x.size(0) * x.size(1) < std::numeric_limits<int>::max() / 2;
}

at::Tensor empty_heads(const at::Tensor& x, const cuda::ScaledHeadsShape& shape) {
  return at::empty({x.size(0), x.size(1), shape.heads * shape.head_dim}, x.options());
}
// For x's gradient: zero where x has more channels than the heads.
at::Tensor empty_rows(const at::Tensor& x, const cuda::ScaledHeadsShape& shape) {
  return x.size(2) == shape.heads * shape.head_dim ? at::empty(x.sizes(), x.options())
                                                   : at::zeros(x.sizes(), x.options());
}
cuda::TokenRows token_rows(const at::Tensor& dx) {
  if (!dx.defined()) return {};
  return {mutable_data(dx), dx.size(2)};
}

struct FusedScaledHeads : torch::autograd::Function<FusedScaledHeads> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weights, std::int64_t head_dim) {
    context->set_materialize_grads(false);
    context->save_for_backward({x, weights});
    context->saved_data["head_dim"] = head_dim;
    const auto shape = shape_of(x, weights.size(2), head_dim);
    auto out = empty_heads(x, shape);
    cuda::scaled_heads_forward(shape, head_vectors(x, head_dim), token_numbers(weights),
                               mutable_data(out), dtype_of(x), current_stream(x));
    return out;
  }
  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    if (!upstream[0].defined()) return variable_list(3);
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &weights = saved[1];
    const auto head_dim = context->saved_data["head_dim"].toInt();
    const auto shape = shape_of(x, weights.size(2), head_dim);
    const auto d_out = readable_rows(upstream[0]), dx = empty_rows(x, shape),
               d_weights = at::empty(weights.sizes(), weights.options());
    cuda::scaled_heads_backward(shape, head_vectors(x, head_dim), token_numbers(weights),
                                head_vectors(d_out, head_dim), token_rows(dx),
                                mutable_data(d_weights), dtype_of(x), current_stream(x));
    return {dx, d_weights, at::Tensor()};
  }
};

cuda::ValueGate value_gate(const at::Tensor& n, const at::Tensor& weight) {
  return {.n = token_numbers(n), .weight = const_fp32_data(weight)};
}

// Returns an alias of n, and the gated rows.
struct FusedGatedValues : torch::autograd::Function<FusedGatedValues> {
  static variable_list forward(AutogradContext* context, const at::Tensor& n, const at::Tensor& v,
                               const at::Tensor& weight, std::int64_t head_dim) {
    context->set_materialize_grads(false);
    context->save_for_backward({n, v, weight});
    context->saved_data["head_dim"] = head_dim;
    const auto shape = shape_of(v, weight.size(0), head_dim);
    auto out = empty_heads(v, shape);
    cuda::gated_values_forward(shape, head_vectors(v, head_dim), value_gate(n, weight),
                               mutable_data(out), dtype_of(v), current_stream(v));
    return {n.variable_data(), out};
  }
  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const at::Tensor none;
    if (!upstream[1].defined()) return {upstream[0], none, none, none};
    const auto saved = context->get_saved_variables();
    const auto &n = saved[0], &v = saved[1], &weight = saved[2];
    const auto head_dim = context->saved_data["head_dim"].toInt();
    const auto shape = shape_of(v, weight.size(0), head_dim);
    const auto d_out = readable_rows(upstream[1]), dv = empty_rows(v, shape),
               d_weight = at::empty(weight.sizes(), weight.options());
    at::Tensor dn;
    if (context->needs_input_grad(0))
      dn = !upstream[0].defined() ? at::zeros(n.sizes(), n.options())
           : is_sole_owner(upstream[0]) && upstream[0].is_contiguous()
               ? upstream[0]
               : upstream[0].clone(at::MemoryFormat::Contiguous);
    cuda::gated_values_backward(
        shape, head_vectors(v, head_dim), value_gate(n, weight), head_vectors(d_out, head_dim),
        {.v = token_rows(dv), .n = token_rows(dn), .weight = mutable_fp32_data(d_weight)},
        dtype_of(v), workspace_like(v), current_stream(v));
    return {dn, dv, d_weight, none};
  }
};

}  // namespace

at::Tensor scaled_heads(const at::Tensor& x_btd, const at::Tensor& weights_bth,
                        std::int64_t head_dim) {
  const auto dtype = x_btd.scalar_type();
  if (weights_bth.scalar_type() == dtype && kernels_support(x_btd, head_dim))
    return FusedScaledHeads::apply(readable_rows(x_btd), readable_numbers(weights_bth, dtype),
                                   head_dim);
  const auto heads = weights_bth.size(2);
  const auto x = x_btd.narrow(-1, 0, heads * head_dim).unflatten(-1, {heads, head_dim});
  return (x * weights_bth.unsqueeze(-1)).flatten(-2);
}

GatedValues gated_values(const NormedInput& n_btd, const at::Tensor& v_btd,
                         const at::Tensor& weight, std::int64_t head_dim) {
  const auto window = weight.size(1) / 2;
  const auto dtype = v_btd.scalar_type();
  if (n_btd.form() == NormedForm::materialized && n_btd.tensor().scalar_type() == dtype &&
      window == cuda::kValueGateWindow && head_dim >= window &&
      weight.numel() <= cuda::kMaxGateWeights && kernels_support(v_btd, head_dim)) {
    const auto out =
        FusedGatedValues::apply(readable_numbers(n_btd.tensor(), dtype), readable_rows(v_btd),
                                weight.to(at::kFloat).contiguous(), head_dim);
    return {n_btd.with_tensor(out[0]), out[1]};
  }
  const auto inputs = at::cat({n_btd.columns(0, window), v_btd.narrow(-1, 0, window)}, -1);
  const auto gates = 2 * at::linear(inputs, weight.to(dtype)).sigmoid();
  return {n_btd, scaled_heads(v_btd, gates, head_dim)};
}

}  // namespace tg
