#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "text/ranked_piece.h"

namespace tg {

// Reads the vocabulary of a byte-level BPE whose ids are its ranks: a JSON object {"bytes in
// hexadecimal": id}, of VALIDATION_MASK_VOCABULARY. Throws Error(bad_data), naming the entry, for
// other things, an id of vocab_size or more, a piece or an id twice, and a byte that is no piece;
// and what read_json_file() throws.
std::vector<RankedPiece> read_hex_vocabulary(const std::string& path, std::int64_t vocab_size);

}  // namespace tg
