#pragma once
// The segments of a batch's rows, which attention does not cross.
#include <cstdint>
#include <span>
#include <vector>

namespace tg {

struct SegmentRule {
  std::int64_t bos_id = 0;  // begins a document
  std::int64_t limit = 0;   // the most tokens of a segment; 0: any number
};

// Positions in `inputs`, ascending, where segments begin: each row of `seq_len` tokens, each BOS
// and, counted from each of these, every `limit` tokens.
std::vector<std::int32_t> segment_starts(std::span<const std::uint16_t> inputs,
                                         std::int64_t seq_len, const SegmentRule& rule);

// The most tokens that a segment of such rows may have.
std::int64_t longest_segment(std::int64_t seq_len, const SegmentRule& rule);

// Room for so many segments that batches of FineWeb's documents (958 tokens on average) seldom have
// more: documents of 768 tokens, beside what the limit cuts. No larger, since attention's forward
// pass on a GPU starts blocks of threads for empty segments, too. A multiple of 64.
std::int64_t usual_segments(std::int64_t inputs, std::int64_t seq_len, const SegmentRule& rule);
// Room for a batch that has more: an eighth beyond its own, since what follows is captured anew.
std::int64_t more_segments(std::int64_t segments);
// What the number of a batch's segments is rounded up to for attention, which keeps a plan for each
// number that it meets: a multiple of 64 up to 1,024, beyond in steps of an eighth of the power of
// two below. 64 numbers up to 65,536, where each batch may have another.
std::int64_t rounded_segments(std::int64_t segments);

}  // namespace tg
