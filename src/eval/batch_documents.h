#pragma once
#include <optional>

#include "data/feeder.h"
#include "eval/split_tokens.h"
#include "ops/attention/documents.h"

namespace tg {

// The segments of a batch's rows, which attention does not cross; none where it has none. Its work
// can be captured.
inline std::optional<Documents> documents_of(const DeviceBatch& batch) {
  if (!batch.segments.defined()) return {};
  return documents_at(batch.segments, batch.inputs.size(0), batch.inputs.size(1),
                      batch.longest_segment);
}

// For passes that measure memory: rows of ids [B, T] that are a document each, where `tokens` have
// documents.
std::optional<Documents> whole_rows(const SplitTokens& tokens, const at::Tensor& ids_bt);

// Copies another batch's segments to those of `batch`, whose shape it has, with empty ones behind
// them. → whether that needed more room, which is at another address.
bool hold_segments(const at::Tensor& segments, DeviceBatch& batch);

}  // namespace tg
