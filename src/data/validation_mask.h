#pragma once
#include <cstdint>
#include <vector>

#include "config/settings.h"

namespace tg {

// Returns noncanonical_pairs() of VOCAB_SIZE tokens: [VOCAB_SIZE, ⌈VOCAB_SIZE / 8⌉] bytes. From
// VALIDATION_MASK_VOCABULARY or, without it, TOKENIZER_PATH, which must be a byte-level BPE with
// GPT-2's words. Throws Error(config) without either, for another tokenizer, and for a vocabulary
// too large for the table; and what read_hex_vocabulary() and make_tokenizer() throw.
std::vector<std::uint8_t> validation_mask(const Settings& settings);

}  // namespace tg
