#include "optim/kept_gradients.h"

#include <fmt/format.h>

#include "ops/optim/add_and_clear.h"

namespace tg {

GradientSums::GradientSums(const ParameterRows& rows) {
  for (const auto* row : rows)
    all_.push_back({row->name, row->value, at::zeros_like(row->value.detach())});
}

void GradientSums::take() const {
  const at::NoGradGuard no_grad;
  for (const auto& [name, parameter, value] : all_) {
    if (const auto& gradient = parameter.grad(); gradient.defined()) add_and_clear(gradient, value);
  }
}

void GradientSums::add(const at::Tensor& skip) const {
  const at::NoGradGuard no_grad;
  for (const auto& [name, parameter, value] : all_) {
    if (const auto& gradient = parameter.grad(); gradient.defined())
      add_and_clear(value, gradient, skip);
  }
}

NamedTensors GradientSums::state() const {
  NamedTensors named;
  for (const auto& [name, parameter, value] : all_)
    named.emplace_back("gradient_sum." + name, value);
  return named;
}

KeptGradients::KeptGradients(const ParameterTable& table, int rank) {
  for (const auto& row : table.rows()) {
    if (row.update.rule != UpdateRule::none) continue;
    all_.push_back({fmt::format("gradient.{}.rank{}", row.name, rank), row.value,
                    at::zeros_like(row.value.detach())});
  }
}

void KeptGradients::begin_step(const at::Tensor& scale) const {
  const at::NoGradGuard no_grad;
  for (const auto& [name, parameter, kept] : all_) {
    if (const auto& gradient = parameter.grad(); gradient.defined())
      gradient.copy_(scale.defined() ? kept * scale : kept);
  }
}

void KeptGradients::end_step(const at::Tensor& skip) const {
  const at::NoGradGuard no_grad;
  for (const auto& [name, parameter, kept] : all_) {
    if (const auto& gradient = parameter.grad(); gradient.defined())
      kept.copy_(at::where(skip.to(at::kBool), kept, gradient));
  }
}

NamedTensors KeptGradients::state() const {
  NamedTensors named;
  for (const auto& [name, parameter, kept] : all_) named.emplace_back(name, kept);
  return named;
}

}  // namespace tg
