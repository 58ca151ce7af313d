#pragma once
// Order of the training tokens, and their documents.
#include <cstdint>
#include <memory>
#include <optional>

#include "config/settings.h"
#include "data/segments.h"
#include "data/token_order.h"
#include "data/token_source.h"

namespace tg {

// Returns the order that LOADER_ORDER selects, in micro-batches of the run's first shape. `tokens`
// must outlive it. Precondition: BOS_ID is resolved (resolve_bos_id()). Throws what the
// constructors of StridedOrder, DocumentsOrder and AlignedOrder throw.
std::unique_ptr<TokenOrder> make_training_order(const Settings& settings, const TokenSource& tokens,
                                                int rank, int world_size);

// Returns the rule for the segments of the run's last micro-batches; nullopt if DOCUMENT_ATTENTION
// needs none.
// Precondition: BOS_ID is resolved.
std::optional<SegmentRule> training_segments(const Settings& settings);

// Returns the maximum number of documents in an aligned row of the recipe's script, whose table of
// their offsets has a fixed size for each number of tokens; 0: any.
std::int64_t most_script_pieces(RecipeChoice recipe, std::int64_t row_tokens);

// Warns, on one rank, if attention or the smear gate depends on document boundaries but
// BOS_ID=`bos_id` is not among the split's first million tokens. Waits, for a text source, for the
// tokens that it searches. Throws what reading throws.
void warn_without_documents(const Settings& settings, const TokenSource& source,
                            std::int64_t bos_id);

}  // namespace tg
