#include "ops/norm/linear_residual_norm.h"

#include <torch/csrc/autograd/custom_function.h>

#include "ops/norm/linear_residual_norm_hopper.h"
#include "ops/norm/norm_outputs.h"
#include "ops/operands.h"

namespace tg {

namespace {

// linear_backward() that also computes `dots`.
at::Tensor linear_backward_with_dots(const at::Tensor& x, const Weight& weight,
                                     const at::Tensor& dy, at::Tensor& dots) {
  const auto dy_rows = as_rows(dy);
  const auto rows = dy_rows.size(0), in = x.size(-1);
  accumulate_gradient(weight, dy_rows, as_rows(x));
  const auto dx = at::empty(x.sizes(), x.options());
  dots = at::empty({in / 64, rows}, x.options().dtype(at::kFloat));
  cuda::input_gradient_with_dots({.rows = static_cast<int>(rows),
                                  .in = static_cast<int>(in),
                                  .out = static_cast<int>(dy_rows.size(1))},
                                 const_data(dy_rows), const_data(weight.value), const_data(x),
                                 mutable_data(dx), mutable_fp32_data(dots), current_stream(x));
  return dx;
}

// Returns x' twice: the second carries y's gradient. Writes row_scale (NormedInput).
struct FusedLinearResidualNorm : torch::autograd::Function<FusedLinearResidualNorm> {
  static variable_list forward(AutogradContext* context, const at::Tensor& in, const at::Tensor& x,
                               const Weight& weight, const NormOptions& norm,
                               const at::Tensor& row_scale, const PassedGradientsPtr& passed) {
    const auto residual = at::empty_like(x);
    const auto rows = norm_rows(x, norm);
    cuda::linear_residual_norm({.rows = static_cast<int>(rows.count),
                                .in_width = static_cast<int>(in.size(-1)),
                                .width = rows.width,
                                .channels = rows.channels,
                                .norm_scale = rows.norm_scale},
                               const_data(in), const_data(weight.value), const_data(x),
                               mutable_data(residual), mutable_fp32_data(row_scale),
                               workspace_like(x), current_stream(x));
    context->save_for_backward({in, weight.value, residual});
    context->saved_data["weight"] = in_capsule(weight);
    context->saved_data["norm"] = in_capsule(norm);
    context->saved_data["passed"] = in_capsule(passed);
    context->set_materialize_grads(false);
    return {residual, residual.variable_data()};
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto saved = context->get_saved_variables();
    const auto &in = saved[0], &residual = saved[2];
    const auto weight = from_capsule<Weight>(context->saved_data["weight"]);
    const auto dresidual = aligned_contiguous(upstream[0]), dy = aligned_contiguous(upstream[1]);
    const auto norm = from_capsule<NormOptions>(context->saved_data["norm"]);
    const auto dx = at::empty_like(residual);
    cuda::residual_norm_backward({.terms = {const_data(residual)}}, norm_rows(residual, norm),
                                 {.dlanes = {const_data(dresidual)},
                                  .dy = {const_data(dy)},
                                  .dy_is_scaled = {true},
                                  .dterms = {mutable_data(dx)}},
                                 /*sums=*/{}, workspace_like(residual), current_stream(residual));
    const auto passed = from_capsule<PassedGradientsPtr>(context->saved_data["passed"]);
    const at::Tensor none;
    const auto d_in = passed && passed->takes_delta
                          ? linear_backward_with_dots(in, weight, dx, passed->delta)
                          : linear_backward(in, weight, dx);
    return {d_in, dx, none, none, none, none};
  }
};

}  // namespace

Kernel choose_linear_residual_norm(const at::Tensor& x, const Weight& weight, NormedForm form) {
  const bool in_gemm = form == NormedForm::deferred_scale && x.scalar_type() == at::kBFloat16 &&
                       supports_hopper_gemm(x, weight.value) && !weight.fp8.defined() &&
                       x.size(-1) <= cuda::kMaxResidualNormWidth &&
                       (!weight.uses_autograd() || !at::GradMode::is_enabled());
  return in_gemm ? Kernel::hopper : choose_residual_norm(x);
}

ResidualNorm linear_residual_norm(const at::Tensor& in, const Weight& weight, const at::Tensor& x,
                                  const NormOptions& norm, const PassedGradientsPtr& passed,
                                  Kernel kernel) {
  if (kernel != Kernel::hopper) {
    const auto branch = linear(in, weight);
    return residual_norm(
        {{.tensor = x}, {.tensor = branch, .gradient_scaling = weight.fp8.output_gradient}}, norm);
  }
  const auto row_scale = at::empty({x.numel() / x.size(-1)}, x.options().dtype(at::kFloat));
  const auto out = FusedLinearResidualNorm::apply(aligned_contiguous(in), aligned_contiguous(x),
                                                  weight, norm, row_scale, passed);
  return {.sum = {}, .x = out[0], .y = NormedInput::deferred_scale(out[1], row_scale), .x0 = {}};
}

}  // namespace tg
