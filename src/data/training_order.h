#pragma once
// The order of the training tokens.
#include <memory>
#include <optional>

#include "config/settings.h"
#include "data/segments.h"
#include "data/token_order.h"

namespace tg {

// The order that LOADER_ORDER names, in micro-batches of the run's first shape. `tokens` must
// outlive it. Wants BOS_ID as read_vocabulary() resolves it. Errors: what the
// constructors of StridedOrder, DocumentsOrder and AlignedOrder throw.
std::unique_ptr<TokenOrder> make_training_order(const Settings& settings, const TokenSource& tokens,
                                                int rank, int world_size);

// The segments of its micro-batches, where DOCUMENT_ATTENTION wants them. BOS_ID as above.
std::optional<SegmentRule> training_segments(const Settings& settings);

}  // namespace tg
