#include "ops/attention/documents.h"

namespace tg {

at::Tensor Documents::mask() const {
  const auto positions = at::arange(ends.size(1), ends.options());
  const auto queries = positions.unsqueeze(1), keys = positions.unsqueeze(0);
  return (keys.le(queries)).logical_and(queries.lt(ends.unsqueeze(1))).unsqueeze(1);
}

Documents documents_in(const at::Tensor& starts) {
  const auto begins = starts.clone();
  begins.select(1, 0).fill_(true);
  const auto tokens = begins.numel(), row = begins.size(1);
  const auto first = begins.flatten().nonzero().flatten();
  const auto offsets = at::cat({first, at::full({1}, tokens, first.options())});
  const auto document = begins.flatten().cumsum(0) - 1;
  const auto row_begin = at::arange(begins.size(0), first.options()).unsqueeze(1) * row;
  const auto ends = offsets.index_select(0, document + 1).view(begins.sizes()) - row_begin;
  return {.offsets = offsets.to(at::kInt),
          .longest = offsets.diff().max().item<std::int64_t>(),
          .ends = ends.to(at::kInt)};
}

}  // namespace tg
