#include "ops/gemm/linear.h"

#include <torch/csrc/autograd/custom_function.h>

#include <cassert>

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
    at::addmm_out(out, accumulator, a, b, at::kFloat);
  } else {
    out.addmm_(a.to(accumulator.scalar_type()), b.to(accumulator.scalar_type()));
  }
}

at::Tensor linear_backward(const at::Tensor& x, const at::Tensor& value, const at::Tensor& gradient,
                           const at::Tensor& dy) {
  const auto rows = as_rows(dy);
  accumulate_gemm(gradient, rows.t(), as_rows(x));
  return at::mm(rows, value).view(x.sizes());
}

at::Tensor fp8_linear_backward(const at::Tensor& x, const Fp8Weight& weight,
                               const at::Tensor& gradient, const at::Tensor& dy) {
  accumulate_gemm(gradient, as_rows(dy).t(), as_rows(x));
  const auto& scaling = weight.output_gradient;
  return fp8_matmul(fp8_rounded(dy, scaling), scaling.scale, weight.transposed, weight.scale);
}

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct AccumulatingLinear : torch::autograd::Function<AccumulatingLinear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& value,
                            const at::Tensor& gradient) {
    context->save_for_backward({x, value});
    context->saved_data["gradient"] = gradient;
    return at::linear(x, value);
  }
  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const auto saved = context->get_saved_variables();
    return {linear_backward(saved[0], saved[1], context->saved_data["gradient"].toTensor(),
                            upstream[0]),
            at::Tensor(), at::Tensor()};
  }
};

struct Fp8Linear : torch::autograd::Function<Fp8Linear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const Weight& weight) {
    context->save_for_backward({x});
    context->saved_data["gradient"] = weight.gradient;
    context->saved_data["fp8"] = in_capsule(weight.fp8);
    const auto& fp8 = weight.fp8;
    return fp8_matmul(fp8_rounded(x, fp8.input), fp8.input.scale, fp8.value, fp8.scale);
  }
  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const auto fp8 = from_capsule<Fp8Weight>(context->saved_data["fp8"]);
    return {fp8_linear_backward(context->get_saved_variables()[0], fp8,
                                context->saved_data["gradient"].toTensor(), upstream[0]),
            at::Tensor()};
  }
};

// With a parameter in another dtype than x.
struct CastingLinear : torch::autograd::Function<CastingLinear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& parameter) {
    const auto value = parameter.to(x.scalar_type());
    context->save_for_backward({x, value});
    context->saved_data["dtype"] = parameter.scalar_type();
    return at::linear(x, value);
  }
  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &value = saved[1];
    at::Tensor dx, dw;
    if (context->needs_input_grad(0)) dx = at::matmul(upstream[0], value);
    if (context->needs_input_grad(1)) {
      dw = at::zeros(value.sizes(),
                     value.options().dtype(context->saved_data["dtype"].toScalarType()));
      accumulate_gemm(dw, as_rows(upstream[0]).t(), as_rows(x));
    }
    return {dx, dw};
  }
};

}  // namespace

at::Tensor linear(const at::Tensor& x, const Weight& weight) {
  if (weight.value.scalar_type() != x.scalar_type()) return CastingLinear::apply(x, weight.value);
  if (weight.fp8.defined()) return Fp8Linear::apply(x, weight);
  if (!weight.gradient.defined() || !at::GradMode::is_enabled()) return at::linear(x, weight.value);
  assert(x.requires_grad());  // else autograd would not call backward
  return AccumulatingLinear::apply(x, weight.value, weight.gradient);
}

}  // namespace tg
