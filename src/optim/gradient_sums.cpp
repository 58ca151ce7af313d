#include "optim/gradient_sums.h"

namespace tg {

GradientSums::GradientSums(const ParameterRows& rows) {
  for (const auto* row : rows)
    all_.push_back({row->name, row->value, at::zeros_like(row->value.detach())});
}

void GradientSums::take() const {
  const at::NoGradGuard no_grad;
  for (const auto& [name, parameter, value] : all_) {
    if (const auto& gradient = parameter.grad(); gradient.defined()) gradient.add_(value);
  }
}

void GradientSums::drop() const {
  const at::NoGradGuard no_grad;
  for (const auto& [name, parameter, value] : all_) value.zero_();
}

void GradientSums::add(const at::Tensor& skip) const {
  const at::NoGradGuard no_grad;
  const auto skipped = skip.to(at::kBool);
  for (const auto& [name, parameter, value] : all_) {
    if (const auto& gradient = parameter.grad(); gradient.defined())
      value.add_(at::where(skipped, 0.0, gradient));
  }
}

NamedTensors GradientSums::state() const {
  NamedTensors named;
  for (const auto& [name, parameter, value] : all_)
    named.emplace_back("gradient_sum." + name, value);
  return named;
}

}  // namespace tg
