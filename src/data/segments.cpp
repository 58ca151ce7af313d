#include "data/segments.h"

#include <algorithm>

namespace tg {
namespace {

std::int64_t whole_blocks(std::int64_t segments) {
  constexpr std::int64_t block = 64;
  return (segments + block - 1) / block * block;
}

}  // namespace

std::vector<std::int32_t> segment_starts(std::span<const std::uint16_t> inputs,
                                         std::int64_t seq_len, const SegmentRule& rule) {
  std::vector<std::int32_t> starts;
  for (std::int64_t row = 0; row < std::ssize(inputs); row += seq_len) {
    auto last = row;
    starts.push_back(static_cast<std::int32_t>(last));
    for (std::int64_t at = row + 1; at < row + seq_len; ++at) {
      const bool is_bos = inputs[static_cast<std::size_t>(at)] == rule.bos_id;
      if (!is_bos && at - last != rule.limit) continue;
      last = at;
      starts.push_back(static_cast<std::int32_t>(last));
    }
  }
  return starts;
}

std::int64_t longest_segment(std::int64_t seq_len, const SegmentRule& rule) {
  return rule.limit == 0 ? seq_len : std::min(rule.limit, seq_len);
}

std::int64_t usual_segments(std::int64_t inputs, std::int64_t seq_len, const SegmentRule& rule) {
  constexpr std::int64_t short_document = 256;
  const auto of_row = rule.limit > 0 ? (seq_len + rule.limit - 1) / rule.limit : 1;
  return whole_blocks(inputs / short_document + inputs / seq_len * of_row);
}

std::int64_t more_segments(std::int64_t before, std::int64_t segments) {
  return std::max(2 * before, whole_blocks(segments));
}

}  // namespace tg
