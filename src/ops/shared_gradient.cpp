#include "ops/shared_gradient.h"

#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "ops/operands.h"

namespace tg {

namespace {

struct Shared : torch::autograd::Function<Shared> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const GradientSumPtr& gradient) {
    context->set_materialize_grads(false);
    context->saved_data["gradient"] = in_capsule(gradient);
    return x.variable_data();
  }
  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    auto sum = from_capsule<GradientSumPtr>(context->saved_data["gradient"])->take();
    const auto& other = upstream[0];
    if (sum.defined() && other.defined()) sum.add_(other);
    return {sum.defined() ? sum : other, at::Tensor()};
  }
};

}  // namespace

const at::Tensor& GradientSum::whole() {
  if (!begun()) sum_ = at::empty(sizes_, options_);
  return sum_;
}

const at::Tensor& GradientSum::zeroed() {
  if (!begun()) sum_ = at::zeros(sizes_, options_);
  return sum_;
}

at::Tensor GradientSum::take() {
  return std::exchange(sum_, {});
}

SharedTensor shared(const at::Tensor& x) {
  if (!at::GradMode::is_enabled() || !x.requires_grad()) return {.tensor = x};
  const auto gradient = std::make_shared<GradientSum>(x);
  return {.tensor = Shared::apply(x, gradient), .gradient = gradient};
}

}  // namespace tg
