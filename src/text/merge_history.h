#pragma once
// How a byte-level BPE merges the bytes of one token.
#include <cstdint>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tg {

// Ranks of the pieces that merges make, by their bytes; merges of lower rank come first.
using PieceRanks = std::unordered_map<std::string_view, std::uint32_t>;

// A piece at one edge of the token, when the merges of a rank within [begin, end) are made.
struct EdgePiece {
  std::string_view bytes;  // of the token
  std::uint32_t begin = 0, end = std::numeric_limits<std::uint32_t>::max();
};

struct MergeHistory {
  std::vector<EdgePiece> first, last;  // at the token's first and at its last byte
  std::string_view left, right;        // operands of the last merge; empty: there was none
};

// Merges neighbouring pieces, at first single bytes, whose concatenation has a rank: the lowest
// first, of equal ones the leftmost. Another token on the right sees a merge's result as `last`
// when merges of the same rank are made, one on the left sees it as `first` from the next rank on,
// since of overlapping merges of equal rank the leftmost is made. `token`: at least one byte; the
// history refers to it.
MergeHistory merge_history(std::string_view token, const PieceRanks& ranks);

}  // namespace tg
