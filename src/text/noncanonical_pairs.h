#pragma once
// Pairs of tokens that a byte-level BPE never writes one after the other (record 91 of the
// speedrun).
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "text/token_id.h"

namespace tg {

// A piece that merges make of its bytes.
struct RankedPiece {
  std::string bytes;  // at least one
  TokenId id = 0;
  std::uint32_t rank = 0;  // merges of lower rank come first; of a single byte it has no meaning
};

// Returns a table of vocab_size rows of ⌈vocab_size / 8⌉ bytes, row by row: bit c % 8, the lowest
// first, of byte c / 8 of row p is 1 if BPE would have merged across the seam of the tokens p and
// c, so that canonical text never has them side by side. That is so if the last merge of a piece
// has the operands (a, b), a is p's last piece when merges of that rank are made, b is c's first
// one, and GPT-2's pattern ends no word between p and c, by its rules in text/word_boundary.h. Ids
// without a piece have no bits. As in the record, two pieces merge where their concatenation is a
// piece. Requires distinct bytes, and ids below vocab_size. For GPT-2 it takes some seconds.
std::vector<std::uint8_t> noncanonical_pairs(std::span<const RankedPiece> pieces,
                                             std::int64_t vocab_size);

}  // namespace tg
