#pragma once
// Files of a byte-level BPE vocabulary. GPT-2's is published as a list of merges (vocab.bpe, which
// transformers calls merges.txt) and as tiktoken's table of ranks (r50k_base.tiktoken): both give
// 50,257 pieces with equal ids.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/pre_tokenizer.h"
#include "text/tokenizer_model.h"

namespace tg {

struct BpeVocabulary {
  // Key of the pair of pieces with the ids left and right.
  static std::uint32_t pair(std::uint16_t left, std::uint16_t right) {
    return std::uint32_t{left} << 16 | right;
  }
  struct Merge {
    std::uint32_t rank = 0;  // merges of lower rank come first
    std::uint16_t id = 0;    // the merged piece
  };

  std::vector<std::string> pieces;  // by id: the piece's bytes, or the name of a special piece
  std::vector<PieceKind> kinds;     // normal; control: special; unused: no piece has the id
  std::unordered_map<std::uint32_t, Merge> merges;  // by pair()
  int bos_id = -1;                                  // begins a document; -1: none
  // A word that is a piece gets that piece's id without merging, as in tiktoken.
  bool whole_words = false;
  PreTokenizer pre_tokenizer{{kGpt2Pattern}, "GPT-2's pattern"};
  std::string format = "gpt2";  // see Tokenizer::format()
};

// Returns the id of the special piece that begins a document, by its usual names; -1: none.
int beginning_of_documents(const BpeVocabulary& vocabulary);

// Parses a vocabulary file; returns nullopt if it is of neither format:
// - Merge list: lines "left right" after "#version: 0.2". Both are pieces in GPT-2's spelling:
//   single bytes, whose order is GPT-2's, or results of earlier lines. Recognized by its first line
//   or its usual names. The ids come from the JSON file in the same folder (text/published_ids.h),
//   in which several merges may make one piece and special pieces may have any id; without that
//   file <|endoftext|> gets the last id.
// - Rank table: lines "piece rank", the piece's bytes in base64; the ranks 0, 1, … are the ids. Two
//   adjacent pieces merge if their concatenation is a piece. Recognized by its first line or by the
//   name *.tiktoken.
// Throws Error(bad_data), with file and line, for an invalid line, a rank out of order, a duplicate
// piece, a byte without a piece, or a list that does not match the JSON file; Error(config) if the
// ids do not fit in 16 bits; and what find_published_ids() throws.
std::optional<BpeVocabulary> read_bpe_vocabulary(std::string_view bytes, const std::string& path);

}  // namespace tg
