#pragma once
#include <cstdint>

#include "config/settings.h"

namespace tg {

// The most tokens that attention spans in training on rows of `row` tokens: with
// DOCUMENT_ATTENTION not more than SEGMENT_LIMIT.
std::int64_t attention_context(const Settings& settings, std::int64_t row);

}  // namespace tg
