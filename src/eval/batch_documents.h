#pragma once
#include <optional>

#include "data/feeder.h"
#include "ops/attention/documents.h"

namespace tg {

// The segments of a batch's rows, which attention does not cross; none where it has none. Its work
// can be captured.
inline std::optional<Documents> documents_of(const DeviceBatch& batch) {
  if (!batch.segments.defined()) return {};
  return documents_at(batch.segments, batch.inputs.size(0), batch.inputs.size(1),
                      batch.longest_segment);
}

}  // namespace tg
