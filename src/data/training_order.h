#pragma once
// The order of the training tokens, and the documents in it.
#include <cstdint>
#include <memory>
#include <optional>

#include "config/settings.h"
#include "data/segments.h"
#include "data/token_order.h"
#include "data/token_source.h"

namespace tg {

// The order that LOADER_ORDER names, in micro-batches of the run's first shape. `tokens` must
// outlive it. Wants BOS_ID as read_vocabulary() resolves it. Errors: what the
// constructors of StridedOrder, DocumentsOrder and AlignedOrder throw.
std::unique_ptr<TokenOrder> make_training_order(const Settings& settings, const TokenSource& tokens,
                                                int rank, int world_size);

// The segments of its micro-batches, where DOCUMENT_ATTENTION wants them. BOS_ID as above.
std::optional<SegmentRule> training_segments(const Settings& settings);

// Warns, once of all ranks, where attention or the smear gate wants to know where documents begin
// and BOS_ID=`bos_id` is none of the split's first million tokens. Of text it waits for the first
// ones. Errors: those of reading.
void warn_without_documents(const Settings& settings, const TokenSource& source,
                            std::int64_t bos_id);

}  // namespace tg
