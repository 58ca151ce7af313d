#pragma once
#include <cstdint>

#include "config/settings.h"

namespace tg {

// The most tokens that attention spans in training on rows of `row` tokens: with
// DOCUMENT_ATTENTION not more than SEGMENT_LIMIT.
std::int64_t attention_context(const Settings& settings, std::int64_t row);

// The longest row in which phased test-time training scores a document: TTT_EVAL_SEQ_LEN, or what
// attention spans in training, where a row of the documents and aligned orders without a limit is
// one of kMicroBatches.
std::int64_t adaptation_row(const Settings& settings);

// ROPE_YARN: from how many tokens on the base of RoPE grows, and for how many: the most of
// `longest`, the tokens that attention spans in the pass's rows, and those that it spans in the
// longest row of the same evaluation.
struct RopeStretch {
  std::int64_t trained = 1024;  // 0: never
  std::int64_t longest = 0;
  bool by_row = false;  // whole rows count, also those in which attention spans less
};
// ROPE_LONGEST, or what it stands for. ROPE_YARN=auto: what attention spans in training, so that
// whoever uses the model has its context; with RECORD_QUIRKS only the pass's own rows count, as in
// the scripts. ROPE_YARN=1: TRAIN_BATCH_TOKENS, for which the warm-up of the reference
// implementation builds its table; with RECORD_QUIRKS what its run has met (contract of the last
// record).
RopeStretch rope_stretch(const Settings& settings, int world_size);
// Sets ROPE_LONGEST to what it stands for in training on so many ranks.
void resolve_rope_longest(Settings& settings, int world_size);

}  // namespace tg
