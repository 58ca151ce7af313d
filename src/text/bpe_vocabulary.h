#pragma once
// The files of a byte-level BPE vocabulary. GPT-2's is published as its merges (vocab.bpe, which
// transformers calls merges.txt) and as tiktoken's table of ranks (r50k_base.tiktoken): the same
// 50,257 pieces under the same ids.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tg {

struct BpeVocabulary {
  std::vector<std::string> pieces;  // bytes, by id; the last is <|endoftext|>, which no text has
  // left id << 16 | right id → the id of both together. The merge of least id comes first.
  std::unordered_map<std::uint32_t, std::uint16_t> merges;
  // A word that is a piece is that piece, whatever its merges would give: tiktoken's rule.
  bool whole_words = false;
};

// A piece in GPT-2's spelling of bytes as characters, as its published files have it; UTF-8.
std::string spelled(std::string_view piece);

// The vocabulary of a file's bytes; nothing where it is of neither kind:
// - lines "left right" below "#version: 0.2", each of two pieces of the 256 bytes, in the order and
//   spelling of GPT-2, or of lines before it; recognised by its first line or its usual names;
// - lines "piece rank": the piece's bytes in base64; the ranks 0, 1, … are the ids. Two
// neighbouring
//   pieces merge where both together are one. Recognised by its first line or the name *.tiktoken.
// Errors: bad_data (a line that is no such merge or rank, a rank out of turn, a piece again, a byte
// that is no piece), config (ids do not fit 16 bits), with file and line.
std::optional<BpeVocabulary> read_bpe_vocabulary(std::string_view bytes, const std::string& path);

}  // namespace tg
