#include "ops/attention/gates/weighted_heads.h"

#include <torch/csrc/autograd/custom_function.h>

#include "ops/attention/gates/xsa.h"
#include "ops/attention/kernels/head_vectors.h"
#include "ops/operands.h"

namespace tg {

namespace {

// y, v, w and g; all but y may be undefined.
cuda::WeightedHeadsInputs pointers(const at::Tensor& y, const at::Tensor& v, const at::Tensor& w,
                                   const at::Tensor& g) {
  return {.y = head_vectors(y),
          .v = head_vectors(v),
          .exclusive = token_numbers(w),
          .gate = token_numbers(g)};
}

struct FusedWeightedHeads : torch::autograd::Function<FusedWeightedHeads> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& y, const OptionalTensor& v,
                            const OptionalTensor& w, const OptionalTensor& g,
                            const PassedGradientsPtr& passed, const Fp8Scaling& rounding) {
    context->set_materialize_grads(false);
    const auto values = or_undefined(v), exclusive = or_undefined(w), gate = or_undefined(g);
    context->save_for_backward({y, values, exclusive, gate});
    context->saved_data["passed"] = in_capsule(passed);
    auto out = at::empty(y.sizes(), y.options());
    cuda::weighted_heads_forward(exclusive_shape(y, values), pointers(y, values, exclusive, gate),
                                 {mutable_data(out), cached_fp8_copy(out, rounding)}, dtype_of(y),
                                 current_stream(y));
    return out;
  }
  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    if (!upstream[0].defined()) return variable_list(6);
    const auto saved = context->get_saved_variables();
    const auto &y = saved[0], &v = saved[1], &w = saved[2], &g = saved[3];
    const auto d_out = readable_heads(upstream[0]);
    const auto gradient = [](const at::Tensor& x) {
      return x.defined() ? at::empty(x.sizes(), x.options()) : x;
    };
    const auto dy = gradient(y), dv = gradient(v), dw = gradient(w), dg = gradient(g);
    const auto passed = from_capsule<PassedGradientsPtr>(context->saved_data["passed"]);
    at::Tensor delta;
    if (passed && passed->takes_delta)
      delta = passed->delta =
          at::empty({y.size(2), y.size(0) * y.size(1)}, y.options().dtype(at::kFloat));
    cuda::weighted_heads_backward(exclusive_shape(y, v), pointers(y, v, w, g), head_vectors(d_out),
                                  {.y = mutable_data(dy),
                                   .v = mutable_data(dv),
                                   .exclusive = mutable_data(dw),
                                   .gate = mutable_data(dg),
                                   .delta = mutable_fp32_data(delta)},
                                  dtype_of(y), current_stream(y));
    return {dy, dv, dw, dg, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor weighted_heads(const at::Tensor& y_bthd, const at::Tensor& v_bthd,
                          const TokenHeadWeights& weights, const PassedGradientsPtr& passed,
                          const Fp8Scaling& rounding) {
  const auto &w = weights.exclusive, &g = weights.gate;
  if (!w.defined() && !g.defined()) return y_bthd;
  const auto v = w.defined() ? v_bthd : at::Tensor();
  const auto dtype = y_bthd.scalar_type();
  if (use_kernels(y_bthd) && (!v.defined() || v.scalar_type() == dtype) &&
      supports_head_dim(y_bthd.size(3), y_bthd))
    return FusedWeightedHeads::apply(readable_heads(y_bthd), optional_tensor(readable_heads(v)),
                                     optional_tensor(readable_numbers(w, dtype)),
                                     optional_tensor(readable_numbers(g, dtype)), passed, rounding);
  const auto y = w.defined() ? weighted_exclusive_attention(y_bthd, v, w) : y_bthd;
  return g.defined() ? y * g.to(dtype).unsqueeze(-1) : y;
}

}  // namespace tg
