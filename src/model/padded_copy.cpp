#include "model/padded_copy.h"

namespace tg {

WeightSource source_of(const at::Tensor& parameter) {
  if (!parameter.requires_grad()) return {parameter.detach(), {}};
  auto& gradient = at::Tensor(parameter).mutable_grad();
  if (!gradient.defined()) gradient = at::zeros_like(parameter.detach());
  return {parameter.detach(), gradient};
}

WeightSource source_of(const ParameterTable& table, const BlockMatrices& matrices) {
  const auto bank = source_of(table[matrices.bank]);
  const auto blocks = bank.value.size(0) / matrices.kinds, first = matrices.kind * blocks;
  const auto of_kind = [&](const at::Tensor& x) {
    return x.defined() ? x.narrow(0, first, blocks) : x;
  };
  return {of_kind(bank.value), of_kind(bank.gradient)};
}

Slices placed(const at::Tensor& whole, const at::Tensor& padded, const CopyLayout& layout) {
  if (whole.sizes() == padded.sizes() && layout.runs.size() <= 1) return {{whole, padded}};
  const bool by_head = layout.heads > 0;
  const auto from = by_head ? whole.unflatten(layout.dim, {layout.heads, -1}) : whole;
  auto to = by_head ? padded.unflatten(layout.dim, {layout.heads, -1}) : padded;
  const auto channels = by_head ? layout.dim + 1 : -1;
  for (std::int64_t dim = 0; dim < from.dim(); ++dim) {
    if (dim != channels) to = to.narrow(dim, 0, from.size(dim));
  }
  if (!by_head) return {{from, to}};
  Slices slices;
  for (const auto& run : layout.runs) {
    slices.emplace_back(from.narrow(channels, run.from, run.count),
                        to.narrow(channels, run.to, run.count));
  }
  return slices;
}

}  // namespace tg
