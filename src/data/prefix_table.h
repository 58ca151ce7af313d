#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "config/settings.h"
#include "text/tokenizer_model.h"

namespace tg {

// Returns, for each of VOCAB_SIZE tokens, the id of the longest token that is a proper prefix of
// it; −1: none. From PREFIX_TABLE, whose list may be shorter, or else from TOKENIZER_PATH's
// vocabulary. Throws Error(config) without either, Error(bad_data) for a list of other things, and
// what read_json_file() and make_tokenizer() throw.
std::vector<std::int64_t> prefix_table(const Settings& settings);

// Returns for each piece of a vocabulary the id of its longest proper prefix that is a normal piece
// too, in bytes; −1 where there is none, and for pieces that are not normal.
std::vector<std::int64_t> longest_prefixes(std::span<const std::string> pieces,
                                           std::span<const PieceKind> kinds);

}  // namespace tg
