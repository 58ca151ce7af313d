#include "config/attention_context.h"

#include <algorithm>

#include "config/derived.h"
#include "config/mode.h"

namespace tg {

std::int64_t attention_context(const Settings& settings, std::int64_t row) {
  const auto limit = segment_limit(settings);
  return mode::segments_attention(settings) && limit > 0 ? std::min(row, limit) : row;
}

}  // namespace tg
