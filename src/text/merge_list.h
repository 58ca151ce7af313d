#pragma once
#include <string>
#include <string_view>

#include "text/bpe_vocabulary.h"

namespace tg {

// Returns whether the file is a list of merges, by its first line or its usual names.
bool is_merge_list(std::string_view bytes, std::string_view path);

// Parses lines "left right" after "#version: 0.2". Both are pieces in GPT-2's spelling: single
// bytes, whose order is GPT-2's, or results of earlier lines. The ids come from vocab.json beside
// merges.txt or encoder.json beside vocab.bpe, in which several merges may make one piece and
// special pieces may have any id; without that file <|endoftext|> gets the last id. Throws
// Error(bad_data), with file and line, for an invalid line, a duplicate piece or a list that does
// not match the JSON file; Error(config) for more than kMaxPieces; and what require_id() throws.
BpeVocabulary read_merge_list(std::string_view bytes, const std::string& path);

}  // namespace tg
