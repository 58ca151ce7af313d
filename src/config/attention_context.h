#pragma once
#include <cstdint>

#include "config/settings.h"

namespace tg {

// Returns the most tokens that attention spans in training on rows of `row` tokens: at most
// SEGMENT_LIMIT with DOCUMENT_ATTENTION.
std::int64_t attention_context(const Settings& settings, std::int64_t row);

// Returns the longest row in which phased test-time training scores a document: TTT_EVAL_SEQ_LEN,
// or if that is 0 the tokens that attention spans in training (in the documents and aligned orders
// without a limit: a row of 1 / kMicroBatches of a batch).
std::int64_t adaptation_row(const Settings& settings);

// ROPE_YARN: RoPE's base grows beyond `trained` tokens, for the largest of: `longest`, the context
// of the pass's rows, and the context of the longest row of the same evaluation.
struct RopeStretch {
  std::int64_t trained = 1024;  // 0: never
  std::int64_t longest = 0;
  bool by_row = false;  // whole rows count, also those in which attention spans less
};
// Returns ROPE_LONGEST, auto resolved. ROPE_YARN=auto: the context of training, so that later uses
// of the model have it too; with RECORD_QUIRKS=1 the pass's own rows alone, as in the scripts.
// ROPE_YARN=1: TRAIN_BATCH_TOKENS, for which the script's warm-up builds its table; with
// RECORD_QUIRKS=1 the longest row that the script's run has met.
RopeStretch rope_stretch(const Settings& settings, int world_size);
// Replaces ROPE_LONGEST=auto by its value in training on `world_size` ranks.
void resolve_rope_longest(Settings& settings, int world_size);

}  // namespace tg
