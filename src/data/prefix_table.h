#pragma once
#include <cstdint>
#include <vector>

#include "config/settings.h"

namespace tg {

// Returns, for each of VOCAB_SIZE tokens, the id of the longest token that is a proper prefix of
// it; −1: none. From PREFIX_TABLE, whose list may be shorter, or else from TOKENIZER_PATH's
// vocabulary. Throws Error(config) without either, Error(bad_data) for a list of other things, and
// what read_json_file() and make_tokenizer() throw.
std::vector<std::int64_t> prefix_table(const Settings& settings);

}  // namespace tg
