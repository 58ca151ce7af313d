#pragma once
#include <cstdint>

#include "config/settings.h"

namespace tg {

// The most tokens that attention spans in training on rows of `row` tokens: with
// DOCUMENT_ATTENTION not more than SEGMENT_LIMIT.
std::int64_t attention_context(const Settings& settings, std::int64_t row);

// ROPE_YARN: from how many tokens on the base of RoPE grows, and with what.
struct RopeStretch {
  std::int64_t trained = 1024;  // 0: never
  std::int64_t longest = 0;  // by so many tokens, or a pass's own row if that is longer; 0: by what
                             // attention spans
};
// By ROPE_YARN=1 with TRAIN_BATCH_TOKENS, for which the warm-up of the reference implementation
// builds its table; with RECORD_QUIRKS by what its run has met (contract of the last record).
RopeStretch rope_stretch(const Settings& settings, int world_size);

}  // namespace tg
