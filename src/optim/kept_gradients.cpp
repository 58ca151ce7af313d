#include "optim/kept_gradients.h"

#include <fmt/format.h>

#include "ops/optim/add_and_clear.h"

namespace tg {

void StoredGradients::add_row(std::string name, const Parameter& row) {
  stored_.emplace_back(std::move(name), at::zeros_like(row.value.detach()));
  parameters_.push_back(row.value);
}

GradientSums::GradientSums(const ParameterRows& rows) {
  for (const auto* row : rows) add_row("gradient_sum." + row->name, *row);
}

void GradientSums::take() const {
  for_each([](const at::Tensor& gradient, const at::Tensor& sum) { add_and_clear(gradient, sum); });
}

void GradientSums::add(const at::Tensor& skip) const {
  for_each([&](const at::Tensor& gradient, const at::Tensor& sum) {
    add_and_clear(sum, gradient, skip);
  });
}

KeptGradients::KeptGradients(const ParameterTable& table, int rank) {
  for (const auto& row : table.rows()) {
    if (row.update.rule == UpdateRule::none)
      add_row(fmt::format("gradient.{}.rank{}", row.name, rank), row);
  }
}

void KeptGradients::begin_step(const at::Tensor& scale) const {
  for_each([&](const at::Tensor& gradient, const at::Tensor& kept) {
    gradient.copy_(scale.defined() ? kept * scale : kept);
  });
}

void KeptGradients::end_step(const at::Tensor& skip) const {
  for_each([&](const at::Tensor& gradient, const at::Tensor& kept) {
    kept.copy_(at::where(skip.to(at::kBool), kept, gradient));
  });
}

}  // namespace tg
