#include "ops/attention/documents.h"

#include <cassert>

namespace tg {

Documents documents_in(const at::Tensor& starts, at::Device device) {
  assert(starts.is_cpu());
  const auto rows = starts.size(0), row = starts.size(1);
  auto begins = starts.clone();
  begins.select(1, 0).fill_(true);
  const auto flat = begins.flatten();
  const auto first = flat.nonzero().flatten();
  const auto offsets = at::cat({first, at::full({1}, rows * row, first.options())});
  const auto document = flat.cumsum(0) - 1;
  const auto row_begin = at::arange(rows, first.options()).unsqueeze(1) * row;
  const auto ends = offsets.index_select(0, document + 1).view({rows, row}) - row_begin;
  return {.offsets = offsets.to(device, at::kInt),
          .longest = *offsets.diff().max().const_data_ptr<std::int64_t>(),
          .ends = ends.to(device, at::kInt)};
}

Documents documents_at(const at::Tensor& offsets, std::int64_t rows, std::int64_t seq_len,
                       std::int64_t longest) {
  const auto tokens = at::arange(rows * seq_len, offsets.options());
  const auto next = at::searchsorted(offsets, tokens, /*out_int32=*/false, /*right=*/true);
  const auto row_begin = at::arange(rows, offsets.options()).unsqueeze(1) * seq_len;
  return {.offsets = offsets,
          .longest = longest,
          .ends = offsets.index_select(0, next).view({rows, seq_len}) - row_begin};
}

at::Tensor document_begins(const at::Tensor& ends_bt) {
  const auto later = ends_bt.size(1) - 1;
  const auto positions = at::arange(1, later + 1, ends_bt.options());
  return at::constant_pad_nd(ends_bt.narrow(1, 0, later).eq(positions), {1, 0}, true);
}

at::Tensor visible_until(const at::Tensor& k_bthd, const std::optional<Documents>& documents,
                         std::int64_t window) {
  const auto rows = k_bthd.size(0), length = k_bthd.size(1);
  const auto ends = documents ? documents->ends : at::Tensor();
  if (window == 0) return ends;
  const auto window_ends = [&] {
    return at::arange(window, window + length,
                      k_bthd.options().dtype(at::kInt).requires_grad(false));
  };
  if (!documents) return window_ends().clamp_max(length).repeat({rows, 1});
  auto& until = documents->derived->visible_until[window];
  if (!until.defined()) until = at::minimum(ends, window_ends());
  return until;
}

at::Tensor visible_from(const at::Tensor& k_bthd, const std::optional<Documents>& documents,
                        std::int64_t window) {
  const auto until = visible_until(k_bthd, documents, window);
  if (!until.defined()) return {};
  const auto search = [&] {
    const auto queries = at::arange(until.size(1), until.options()).expand_as(until).contiguous();
    return at::searchsorted(until.contiguous(), queries, /*out_int32=*/true, /*right=*/true);
  };
  if (!documents) return search();
  auto& from = documents->derived->visible_from[window];
  if (!from.defined()) from = search();
  return from;
}

at::Tensor hidden_keys(const at::Tensor& visible_until) {
  const auto positions = at::arange(visible_until.size(1), visible_until.options());
  const auto queries = positions.unsqueeze(1), keys = positions.unsqueeze(0);
  return keys.gt(queries).logical_or(queries.ge(visible_until.unsqueeze(1))).unsqueeze(1);
}

}  // namespace tg
