#include "ops/gemm/linear.h"

#include <torch/csrc/autograd/custom_function.h>

#include <cassert>

#include "ops/gemm/gemm.h"
#include "ops/operands.h"

namespace tg {

at::Tensor as_rows(const at::Tensor& x) {
  return x.reshape({-1, x.size(-1)});
}

void accumulate_gemm(const at::Tensor& accumulator, const at::Tensor& a, const at::Tensor& b) {
  at::Tensor out = accumulator;
  if (a.scalar_type() == accumulator.scalar_type()) {
    out.addmm_(a, b);
  } else if (a.is_cuda() && accumulator.scalar_type() == at::kFloat) {
    if (!gemm_by_choice({a, b, out}, /*accumulates=*/true))
      at::addmm_out(out, accumulator, a, b, at::kFloat);
  } else {
    out.addmm_(a.to(accumulator.scalar_type()), b.to(accumulator.scalar_type()));
  }
}

void accumulate_gradient(const Weight& weight, const at::Tensor& dy_rows,
                         const at::Tensor& x_rows) {
  if (weight.gradient.defined()) accumulate_gemm(weight.gradient, dy_rows.t(), x_rows);
}

at::Tensor linear_forward(const NormedInput& x, const Weight& weight) {
  const auto& fp8 = weight.fp8;
  if (!fp8.defined()) return gemm(x.rows(), weight.value.t());
  return fp8_matmul(x.rounded(fp8.input), fp8.input.scale, fp8.value, fp8.scale);
}

at::Tensor linear_backward(const at::Tensor& x, const Weight& weight, const at::Tensor& dy) {
  const auto rows = as_rows(dy);
  // view() would keep the GEMM's tensor alive as the base of its result, which then is no sole
  // owner (is_sole_owner).
  const auto like_x = [&](const at::Tensor& dx) { return at::_unsafe_view(dx, x.sizes()); };
  const auto& fp8 = weight.fp8;
  const bool in_fp8 = x.scalar_type() == at::kFloat8_e4m3fn;
  if (!in_fp8) accumulate_gradient(weight, rows, as_rows(x));
  if (!fp8.defined()) return like_x(gemm(rows, weight.value));
  const auto& scale = fp8.output_gradient.scale;
  const auto rounded = to_fp8(rows, fp8.output_gradient);
  if (in_fp8)
    accumulate_fp8_gemm(weight.gradient, fp8_transposed(rounded), scale, fp8_transposed(x),
                        fp8.input.scale);
  return like_x(fp8_matmul(rounded, scale, fp8.transposed, fp8.scale));
}

GemmOperands gemm_operands(const NormedInput& x, const Weight& weight) {
  const auto& fp8 = weight.fp8;
  if (!fp8.defined()) return {x.tensor(), weight.value};
  return {x.rounded(fp8.input), fp8.value, fp8_gemm(fp8.input.scale, fp8.scale)};
}

namespace {

// For a weight with a gradient buffer, or a constant weight.
struct AccumulatingLinear : torch::autograd::Function<AccumulatingLinear> {
  // `in`: x and, if any, its FP8 copy.
  static at::Tensor forward(AutogradContext* context, const at::Tensor&, const NormedInput& in,
                            const Weight& weight) {
    context->save_for_backward(
        {in.saved(), weight.value});  // autograd then checks that neither is modified in place
    context->saved_data["weight"] = in_capsule(weight);
    return linear_forward(in, weight);
  }
  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const auto weight = from_capsule<Weight>(context->saved_data["weight"]);
    const at::Tensor none;
    return {linear_backward(context->get_saved_variables()[0], weight, upstream[0]), none, none};
  }
};

// For a parameter in a dtype other than x's.
struct CastingLinear : torch::autograd::Function<CastingLinear> {
  // x_gradient: the sum that takes dx, or null.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& parameter, const GradientSumPtr& x_gradient) {
    const auto value = parameter.to(x.scalar_type());
    context->save_for_backward({x, value});
    context->saved_data["dtype"] = parameter.scalar_type();
    context->saved_data["x_gradient"] = in_capsule(x_gradient);
    return at::linear(x, value);
  }
  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &value = saved[1];
    at::Tensor dx, dw;
    if (context->needs_input_grad(0)) {
      const auto sum = from_capsule<GradientSumPtr>(context->saved_data["x_gradient"]);
      if (sum)
        accumulate_gemm(as_rows(sum->zeroed()), as_rows(upstream[0]), value);
      else
        dx = at::matmul(upstream[0], value);
    }
    if (context->needs_input_grad(1)) {
      dw = at::zeros(value.sizes(),
                     value.options().dtype(context->saved_data["dtype"].toScalarType()));
      accumulate_gemm(dw, as_rows(upstream[0]).t(), as_rows(x));
    }
    return {dx, dw, at::Tensor()};
  }
};

}  // namespace

at::Tensor linear(const NormedInput& in, const Weight& weight) {
  const auto rows = in.form() == NormedForm::quantized ? in : in.materialized();
  const auto& x = rows.tensor();
  if (weight.value.scalar_type() != x.scalar_type())
    return CastingLinear::apply(x, weight.value, GradientSumPtr());
  if (weight.uses_autograd() || !at::GradMode::is_enabled()) return linear_forward(rows, weight);
  // Else autograd would not call backward.
  assert(x.requires_grad() || !weight.gradient.defined());
  return AccumulatingLinear::apply(x, rows, weight);
}

at::Tensor linear(const SharedTensor& x, const Weight& weight) {
  if (weight.value.scalar_type() == x.tensor.scalar_type()) return linear(x.tensor, weight);
  return CastingLinear::apply(x.tensor, weight.value, x.gradient);
}

}  // namespace tg
