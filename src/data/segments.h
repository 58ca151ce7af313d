#pragma once
// Segments of a batch's rows, which attention does not cross.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "data/ids.h"

namespace tg {

struct SegmentRule {
  std::int64_t bos_id = 0;  // begins a document
  std::int64_t limit = 0;   // maximum tokens of a segment; 0: unlimited
};

// Returns the ascending positions in `inputs` where segments begin: each row of `seq_len` tokens,
// each BOS and, from each of these on, every `limit` tokens.
std::vector<std::int32_t> segment_starts(const Ids& inputs, std::int64_t seq_len,
                                         const SegmentRule& rule);

// Returns the maximum number of tokens of a segment in such rows.
inline std::int64_t longest_segment(std::int64_t seq_len, const SegmentRule& rule) {
  return rule.limit == 0 ? seq_len : std::min(rule.limit, seq_len);
}

// Returns a capacity, a multiple of 64, that batches of FineWeb documents (958 tokens on average)
// seldom exceed: for documents of 768 tokens, plus the segments that the limit cuts. No larger,
// since FlashAttention starts thread blocks for empty segments too.
std::int64_t usual_segments(std::int64_t inputs, std::int64_t seq_len, const SegmentRule& rule);
// Returns the capacity for a batch that exceeds the previous one: an eighth more than its own
// segments, since work that uses the new tensor must be captured again.
std::int64_t more_segments(std::int64_t segments);

}  // namespace tg
