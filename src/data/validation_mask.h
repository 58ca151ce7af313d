#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "config/settings.h"
#include "text/bpe_vocabulary.h"

namespace tg {

// Returns noncanonical_pairs() of VOCAB_SIZE tokens: [VOCAB_SIZE, ⌈VOCAB_SIZE / 8⌉] bytes. From
// VALIDATION_MASK_VOCABULARY or, without it, TOKENIZER_PATH, which must be a byte-level BPE with
// GPT-2's words. Throws Error(config) without either, for another tokenizer, and for a vocabulary
// too large for the table; and what read_hex_vocabulary() and make_tokenizer() throw.
std::vector<std::uint8_t> validation_mask(const Settings& settings);

// Reads the vocabulary of a byte-level BPE whose ids are its ranks: a JSON object {"bytes in
// hexadecimal": id}, of VALIDATION_MASK_VOCABULARY. Throws Error(bad_data), naming the entry, for
// other things, an id of vocab_size or more, a piece or an id twice, and a byte that is no piece;
// and what read_json_file() throws.
std::vector<RankedPiece> read_hex_vocabulary(const std::string& path, std::int64_t vocab_size);

}  // namespace tg
