#include "ops/norm/linear_residual_norm.h"

#include <torch/csrc/autograd/custom_function.h>

#include "ops/norm/input_gradient_hopper.h"
#include "ops/norm/linear_residual_norm_hopper.h"
#include "ops/norm/residual_norm_rows.h"
#include "ops/operands.h"

namespace tg {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// linear_backward(), which leaves the dots.
at::Tensor linear_backward_with_dots(const at::Tensor& x, const Weight& weight,
                                     const at::Tensor& dy, InputDots& dots) {
  const auto dy_rows = as_rows(dy);
  const auto rows = dy_rows.size(0), in = x.size(-1);
  accumulate_gemm(weight.gradient, dy_rows.t(), as_rows(x));
  const auto dx = at::empty(x.sizes(), x.options());
  dots.sums = at::empty({in / 64, rows}, x.options().dtype(at::kFloat));
  cuda::input_gradient_with_dots({.rows = static_cast<int>(rows),
                                  .in = static_cast<int>(in),
                                  .out = static_cast<int>(dy_rows.size(1))},
                                 const_data(dy_rows), const_data(weight.value), const_data(x),
                                 mutable_data(dx), mutable_fp32_data(dots.sums), current_stream(x));
  return dx;
}

// → x', x' again with y's gradient, row_scale (ResidualNorm).
struct FusedLinearResidualNorm : torch::autograd::Function<FusedLinearResidualNorm> {
  static variable_list forward(AutogradContext* context, const at::Tensor& in, const at::Tensor& x,
                               const Weight& weight, double norm_scale, std::int64_t channels,
                               const InputDotsPtr& in_dots) {
    const auto width = x.size(-1), rows = x.numel() / width;
    const auto fp32 = x.options().dtype(at::kFloat);
    const auto residual = at::empty_like(x), row_scale = at::empty({rows}, fp32);
    const auto squares =
        at::empty({rows, cuda::linear_residual_parts(static_cast<int>(width))}, fp32);
    cuda::linear_residual_norm({.rows = static_cast<int>(rows),
                                .in_width = static_cast<int>(in.size(-1)),
                                .width = static_cast<int>(width),
                                .channels = static_cast<int>(channels == 0 ? width : channels),
                                .norm_scale = static_cast<float>(norm_scale)},
                               const_data(in), const_data(weight.value), const_data(x),
                               mutable_data(residual), mutable_fp32_data(squares),
                               mutable_fp32_data(row_scale), current_stream(x));
    context->save_for_backward({in, weight.value, residual});
    context->saved_data["weight"] = in_capsule(weight);
    context->saved_data["norm_scale"] = norm_scale;
    context->saved_data["channels"] = channels;
    context->saved_data["in_dots"] = in_capsule(in_dots);
    context->mark_non_differentiable({row_scale});
    context->set_materialize_grads(false);
    return {residual, residual.variable_data(), row_scale};
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto saved = context->get_saved_variables();
    const auto &in = saved[0], &residual = saved[2];
    const auto weight = from_capsule<Weight>(context->saved_data["weight"]);
    const auto dresidual = aligned_contiguous(upstream[0]), dy = aligned_contiguous(upstream[1]);
    const auto rows = residual_norm_rows(residual, context->saved_data["norm_scale"].toDouble(),
                                         context->saved_data["channels"].toInt());
    const auto dx = at::empty_like(residual);
    const cuda::ResidualNormTerms terms{.x = const_data(residual)};
    cuda::residual_norm_backward(terms, rows,
                                 {.dresidual = const_data(dresidual),
                                  .dy = const_data(dy),
                                  .dx = mutable_data(dx),
                                  .dy_is_scaled = true},
                                 cuda::residual_norm_blocks(terms, rows, /*copies_dx=*/false),
                                 /*partials=*/nullptr, /*parameter_sums=*/nullptr,
                                 current_stream(residual));
    const auto in_dots = from_capsule<InputDotsPtr>(context->saved_data["in_dots"]);
    const at::Tensor none;
    const auto d_in = in_dots && in_dots->wanted
                          ? linear_backward_with_dots(in, weight, dx, *in_dots)
                          : linear_backward(in, weight, dx);
    return {d_in, dx, none, none, none, none};
  }
};

bool supported(const at::Tensor& in, const Weight& weight, const ResidualTerms& of) {
  return of.normed == NormedRows::as_row_scale && !of.skip.defined() && !of.mix.defined() &&
         in.scalar_type() == at::kBFloat16 && of.x.scalar_type() == at::kBFloat16 &&
         supports_hopper_gemm(in, weight.value) && !weight.fp8.defined() &&
         of.x.size(-1) <= cuda::kMaxResidualNormWidth &&
         (weight.gradient.defined() || !at::GradMode::is_enabled());
}

}  // namespace

ResidualNorm linear_residual_norm(const at::Tensor& in, const Weight& weight,
                                  const ResidualTerms& terms, double norm_scale,
                                  const InputDotsPtr& in_dots) {
  if (!supported(in, weight, terms)) {
    auto with_branch = terms;
    with_branch.branch = linear(in, weight);
    return residual_norm(with_branch, norm_scale, /*keep_sum=*/false);
  }
  const auto out =
      FusedLinearResidualNorm::apply(aligned_contiguous(in), aligned_contiguous(terms.x), weight,
                                     norm_scale, terms.channels, in_dots);
  return {.sum = {}, .x = out[0], .y = out[1], .row_scale = out[2], .x0 = terms.x0};
}

}  // namespace tg
