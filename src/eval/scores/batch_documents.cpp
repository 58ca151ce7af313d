#include "eval/scores/batch_documents.h"

#include <algorithm>

namespace tg {

std::optional<Documents> whole_rows(const SplitTokens& tokens, const at::Tensor& ids_bt) {
  if (!tokens.has_documents()) return {};
  const auto rows = ids_bt.size(0), length = ids_bt.size(1);
  const auto offsets = at::arange(rows + 1, ids_bt.options().dtype(at::kInt)) * length;
  return documents_at(offsets, rows, length, length);
}

bool hold_segments(const at::Tensor& segments, DeviceBatch& batch) {
  if (!segments.defined()) return false;
  const auto inputs = batch.inputs.numel(), count = segments.numel() - 1;
  const auto before = batch.segments.defined() ? batch.segments.numel() - 1 : 0;
  if (count > before) {
    const auto capacity =
        std::max(usual_segments(inputs, batch.inputs.size(1), {}), more_segments(count));
    batch.segments = at::empty({capacity + 1}, segments.options());
  }
  batch.segments.narrow(0, 0, count + 1).copy_(segments);
  batch.segments.slice(0, count + 1).fill_(inputs);
  return count > before;
}

}  // namespace tg
