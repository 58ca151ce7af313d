#pragma once
#include <cstdint>

namespace tg {

// Shape of a micro-batch: `tokens` in rows of `seq_len`, which divides `tokens`.
struct BatchShape {
  std::int64_t tokens = 0, seq_len = 0;
  std::int64_t segment_limit = 0;  // SEGMENT_LIMIT where it has an effect, tokens; 0: none

  std::int64_t rows() const { return tokens / seq_len; }
  auto operator<=>(const BatchShape&) const = default;
};

}  // namespace tg
