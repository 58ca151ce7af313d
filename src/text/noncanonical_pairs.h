#pragma once
// Pairs of tokens that a byte-level BPE never writes one after the other (record 91 of the
// speedrun).
#include <cstdint>
#include <span>
#include <vector>

#include "text/bpe_vocabulary.h"

namespace tg {

// Returns a table of vocab_size rows of ⌈vocab_size / 8⌉ bytes, row by row: bit c % 8, the lowest
// first, of byte c / 8 of row p is 1 if BPE would have merged across the seam of the tokens p and
// c, so that canonical text never has them side by side. That is so if the last merge of a piece
// has the operands (a, b), a is p's last piece when merges of that rank are made, b is c's first
// one, and GPT-2's pattern ends no word between p and c, by the rules of text/word_boundary.h. As
// in the record, two pieces merge where their concatenation is a piece. Ids without a piece have no
// bits. Canonical text has a marked pair only where a vocabulary lacks one of kContractions: behind
// its last piece. Requires distinct bytes, and ids below vocab_size. For GPT-2 it takes a second.
std::vector<std::uint8_t> noncanonical_pairs(std::span<const RankedPiece> pieces,
                                             std::int64_t vocab_size);

}  // namespace tg
