#include "ops/gemm/batched_linear.h"

#include <torch/csrc/autograd/custom_function.h>

#include "ops/operands.h"

namespace tg {

namespace {

// Writes W's gradient, dyᵀ·x.
void write_gradient(const BatchedWeight& weight, const at::Tensor& dy, const at::Tensor& x) {
  if (!weight.gradient.defined()) return;
  auto gradient = weight.gradient;
  const auto dy_t = dy.transpose(1, 2);
  const auto dtype = gradient.scalar_type();
  if (dtype != dy.scalar_type() && gradient.is_cuda())
    at::bmm_out(gradient, dy_t, x, dtype);
  else
    at::bmm_out(gradient, dy_t.to(dtype), x.to(dtype));
  if (weight.row_scale.defined()) gradient.mul_(weight.row_scale.unsqueeze(-1));
  if (weight.grad_scale != 1) gradient.div_(weight.grad_scale).nan_to_num_(0, 0, 0);
}

struct BatchedLinear : torch::autograd::Function<BatchedLinear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const OptionalTensor& /*leaf*/, const BatchedWeight& weight,
                            double scale) {
    context->save_for_backward({x, weight.value});
    context->saved_data["weight"] = in_capsule(weight);
    context->saved_data["scale"] = scale;
    const auto none = at::empty({}, x.options());  // not read, since β = 0
    return at::baddbmm(none, x, weight.value.transpose(1, 2), /*beta=*/0, /*alpha=*/scale);
  }
  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const auto weight = from_capsule<BatchedWeight>(context->saved_data["weight"]);
    const double scale = context->saved_data["scale"].toDouble();
    const auto dy = scale == 1 ? upstream[0] : upstream[0] * scale;
    write_gradient(weight, dy, context->get_saved_variables()[0]);
    const at::Tensor none;
    const auto dx = context->needs_input_grad(0) ? at::bmm(dy, weight.value) : none;
    return {dx, none, none, none};
  }
};

struct AddBatchedLinear : torch::autograd::Function<AddBatchedLinear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& y, const at::Tensor& x,
                            const OptionalTensor& /*leaf*/, const BatchedWeight& weight,
                            std::int64_t first) {
    context->save_for_backward({x, weight.value});
    context->saved_data["weight"] = in_capsule(weight);
    context->saved_data["first"] = first;
    const auto sum = y.variable_data();
    sum.narrow(-1, first, weight.value.size(1)).baddbmm_(x, weight.value.transpose(1, 2));
    return sum;
  }
  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const auto weight = from_capsule<BatchedWeight>(context->saved_data["weight"]);
    const auto first = context->saved_data["first"].toInt();
    const auto dy = upstream[0].narrow(-1, first, weight.value.size(1));
    write_gradient(weight, dy, context->get_saved_variables()[0]);
    const at::Tensor none;
    return {upstream[0], at::bmm(dy, weight.value), none, none, none};
  }
};

}  // namespace

at::Tensor batched_linear(const at::Tensor& x_bti, const BatchedWeight& weight, double scale) {
  return BatchedLinear::apply(x_bti, optional_tensor(weight.leaf), weight, scale);
}

at::Tensor add_batched_linear(const at::Tensor& y, std::int64_t first, const at::Tensor& x_bti,
                              const BatchedWeight& weight) {
  return AddBatchedLinear::apply(y, x_bti, optional_tensor(weight.leaf), weight, first);
}

}  // namespace tg
