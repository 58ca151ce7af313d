#pragma once
// Byte-level BPE vocabulary. GPT-2's is published as a list of merges (vocab.bpe, which
// transformers calls merges.txt) and as tiktoken's table of ranks (r50k_base.tiktoken): both give
// 50,257 pieces with equal ids. Others come as tokenizer.json (text/tokenizer_json.h), too.
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
  static std::uint64_t pair(TokenId left, TokenId right) {
    return std::uint64_t{left} << 32 | right;
  }
  static TokenId left_of(std::uint64_t pair) { return static_cast<TokenId>(pair >> 32); }
  static TokenId right_of(std::uint64_t pair) { return static_cast<TokenId>(pair); }
  struct Merge {
    std::uint32_t rank = 0;  // merges of lower rank come first
    TokenId id = 0;          // the merged piece
  };

  std::vector<std::string> pieces;  // by id: the piece's bytes, or the name of a special piece
  std::vector<PieceKind> kinds;     // normal; control: special; unused: no piece has the id
  std::unordered_map<std::uint64_t, Merge> merges;  // by pair()
  int bos_id = -1;                                  // begins a document; -1: none
  // A word that is a piece gets that piece's id without merging, as in tiktoken.
  bool whole_words = false;
  bool nfc = false;     // texts are in Unicode's normal form C before they are split into words
  std::string pattern;  // of a table of ranks, in Oniguruma's syntax; empty: GPT-2's
  PreTokenizer pre_tokenizer{{kGpt2Pattern}, "GPT-2's pattern"};
  std::string format = "gpt2";  // see Tokenizer::format()
};

inline constexpr std::string_view kEndOfText = "<|endoftext|>";

// Throws Error(config) for an id of kMaxPieces or more, and Error(bad_data) for one that would
// leave more than 262,144 ids without a piece in a file of `pieces`: a damaged digit would else
// make a vocabulary of up to a million. `where` names the file.
void require_id(std::uint64_t id, std::string_view piece, std::size_t pieces,
                std::string_view where);
// Returns the id of the special piece that begins a document, by its usual names; -1: none.
int beginning_of_documents(const BpeVocabulary& vocabulary);
// Adds a special piece; ids between it and the last piece have no piece. Returns the id.
int add_special(BpeVocabulary& vocabulary, std::size_t id, std::string_view name);

// Parses a list of merges (text/merge_list.h) or a table of ranks (text/rank_table.h), whose
// `pattern` is TOKENIZER_PATTERN; returns nullopt for a file of another format. Throws what these
// throw.
std::optional<BpeVocabulary> read_bpe_vocabulary(std::string_view bytes, const std::string& path,
                                                 const std::string& pattern = {});

}  // namespace tg
