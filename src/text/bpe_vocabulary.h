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

#include "text/tokenizer_model.h"

namespace tg {

struct BpeVocabulary {
  // Of two pieces with the ids left and right.
  static std::uint32_t pair(std::uint16_t left, std::uint16_t right) {
    return std::uint32_t{left} << 16 | right;
  }
  struct Merge {
    std::uint32_t rank = 0;  // the least comes first
    std::uint16_t id = 0;    // of both pieces together
  };

  std::vector<std::string> pieces;  // by id: bytes; of a special piece its name
  std::vector<PieceKind> kinds;     // normal; control: special; unused: no piece has this id
  std::unordered_map<std::uint32_t, Merge> merges;  // by pair()
  int bos_id = -1;                                  // begins a document; -1: no piece does
  // A word that is a piece is that piece, whatever its merges would give: tiktoken's rule.
  bool whole_words = false;
};

// The vocabulary of a file's bytes; nothing where it is of neither kind:
// - lines "left right" below "#version: 0.2", each of two pieces of the 256 bytes, in the order and
//   spelling of GPT-2, or of lines before it; recognised by its first line or its usual names;
//   Ids are those of the JSON file beside it (text/published_ids.h), where merges may make a piece
//   again and special pieces have any id; else <|endoftext|> has the last one;
// - lines "piece rank": the piece's bytes in base64; the ranks 0, 1, … are the ids. Two
//   neighbouring pieces merge where both together are one. Recognised by its first line or the name
//   *.tiktoken.
// Errors: bad_data (a line that is no such merge or rank, a rank out of turn, a piece again, a byte
// that is no piece, a list and a JSON file that do not fit), config (ids do not fit 16 bits), with
// file and line; those of find_published_ids().
std::optional<BpeVocabulary> read_bpe_vocabulary(std::string_view bytes, const std::string& path);

}  // namespace tg
