#include "model/tied_rows.h"

#include <cassert>

namespace tg {

std::vector<TiedRow> tied_rows(const ParameterTable& table) {
  std::vector<TiedRow> tied;
  for (const auto& row : table.rows()) {
    const auto to = row.update.tied_to;
    if (to) tied.push_back({&row, &table.rows()[static_cast<std::size_t>(to.row)]});
  }
  return tied;
}

at::Tensor as_tied(const at::Tensor& tensor, at::IntArrayRef sizes) {
  if (tensor.sizes() == sizes) return tensor;
  assert(tensor.dim() == 2 && tensor.t().sizes() == sizes);
  return tensor.t();
}

void copy_tied_values(const std::vector<TiedRow>& rows) {
  const at::NoGradGuard no_grad;
  for (const auto& [row, to] : rows) row->value.copy_(as_tied(to->value, row->value.sizes()));
}

void add_tied_gradients(const std::vector<TiedRow>& rows) {
  const at::NoGradGuard no_grad;
  for (const auto& [row, to] : rows) {
    const auto &from = row->value.grad(), &sum = to->value.grad();
    if (from.defined() && sum.defined()) sum.add_(as_tied(from, sum.sizes()));
  }
}

bool is_equal(const TiedRow& tied) {
  const auto &own = tied.row->value, other = as_tied(tied.to->value, own.sizes());
  return at::equal(own.to(other.scalar_type()).to(own.scalar_type()), other.to(own.scalar_type()));
}

}  // namespace tg
