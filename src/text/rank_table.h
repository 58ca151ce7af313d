#pragma once
// tiktoken's tables of ranks, *.tiktoken.
#include <string>
#include <string_view>

#include "text/bpe_vocabulary.h"

namespace tg {

// Returns whether the file is a table of ranks, by its first line or its name.
bool is_rank_table(std::string_view bytes, std::string_view path);

// Parses lines "piece rank", the piece's bytes in base64; the ranks 0, 1, … are the ids. Two
// adjacent pieces merge if their concatenation is a piece. A table states no pattern: `pattern`
// does (a name or a regular expression), or it is empty for GPT-2's table, by its number of ranks,
// and for cl100k_base and o200k_base, by name and number. Special pieces are those tables' own;
// others get
// <|endoftext|> behind the last rank. Throws Error(bad_data), with file and line, for an invalid
// line, a rank out of order, a duplicate piece, a byte without a piece or an invalid pattern;
// Error(config) for another table without a pattern, and for more than kMaxPieces.
BpeVocabulary read_rank_table(std::string_view bytes, const std::string& path,
                              const std::string& pattern);

}  // namespace tg
