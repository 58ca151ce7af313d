#pragma once
// Byte-level BPE vocabulary. GPT-2's is published as a list of merges (vocab.bpe, which
// transformers calls merges.txt) and as tiktoken's table of ranks (r50k_base.tiktoken): both give
// 50,257 pieces with equal ids. Others come as tokenizer.json, too.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/pre_tokenizer.h"
#include "text/text_lines.h"
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

  // Adds a merge, unless the pair has one already.
  void add_merge(TokenId left, TokenId right, Merge merge) {
    merges.emplace(pair(left, right), merge);
  }
  // Adds ids without a piece up to this one.
  void add_ids_to(std::size_t id);
};

// A piece of a byte-level BPE that merges make of its bytes.
struct RankedPiece {
  std::string bytes;  // at least one
  TokenId id = 0;
  std::uint32_t rank = 0;  // merges of lower rank come first; of a single byte it has no meaning
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

// Throws Error(bad_data) that names the line.
[[noreturn]] void refuse_line(const std::string& path, const TextLine& line,
                              const std::string& expected);

// Adds pieces with consecutive ids, in the order of their merges.
class BpeBuilder {
 public:
  // `path`, for messages, must outlive the builder.
  explicit BpeBuilder(const std::string& path) : path_(path) {}

  // Returns the piece's id. Throws Error(bad_data) if it is there already or too long, and
  // Error(config) for more than kMaxPieces.
  TokenId add(const std::string& piece, std::int64_t line);
  // Adds a way to make the piece `id`. The id is the rank: merges that make the same piece have
  // equal rank.
  void add_merge(TokenId left, TokenId right, TokenId id) {
    vocabulary_.add_merge(left, right, {.rank = id, .id = id});
  }
  std::optional<TokenId> find(const std::string& piece) const;
  std::size_t size() const { return vocabulary_.pieces.size(); }
  const std::string& piece(std::size_t id) const { return vocabulary_.pieces[id]; }

  // Returns the vocabulary of these pieces, without special ones.
  BpeVocabulary finish() && { return std::move(vocabulary_); }

 private:
  const std::string& path_;
  BpeVocabulary vocabulary_;
  std::unordered_map<std::string, TokenId> ids_;
};

// Readers of the file formats: merge_list.cpp, rank_table.cpp and tokenizer_json.cpp.

// Returns whether the file is a list of merges, by its first line or its usual names.
bool is_merge_list(std::string_view bytes, std::string_view path);

// Parses lines "left right" after "#version: 0.2". Both are pieces in GPT-2's spelling: single
// bytes, whose order is GPT-2's, or results of earlier lines. The ids come from vocab.json beside
// merges.txt or encoder.json beside vocab.bpe, in which several merges may make one piece and
// special pieces may have any id; without that file <|endoftext|> gets the last id. Throws
// Error(bad_data), with file and line, for an invalid line, a duplicate piece or a list that does
// not match the JSON file; Error(config) for more than kMaxPieces; and what require_id() throws.
BpeVocabulary read_merge_list(std::string_view bytes, const std::string& path);

// Returns whether the file is tiktoken's table of ranks, by its first line or its name.
bool is_rank_table(std::string_view bytes, std::string_view path);

// Parses lines "piece rank", the piece's bytes in base64; the ranks 0, 1, … are the ids. Two
// adjacent pieces merge if their concatenation is a piece. A table states no pattern: `pattern`
// does (a name or a regular expression), or it is empty for GPT-2's table, by its number of ranks,
// and for cl100k_base and o200k_base, by name and number. Special pieces are those tables' own;
// others get <|endoftext|> behind the last rank. Throws Error(bad_data), with file and line, for an
// invalid line, a rank out of order, a duplicate piece, a byte without a piece or an invalid
// pattern; Error(config) for another table without a pattern, and for more than kMaxPieces.
BpeVocabulary read_rank_table(std::string_view bytes, const std::string& path,
                              const std::string& pattern);

// Returns whether the file is JSON, which no other tokenizer file is.
bool is_tokenizer_json(std::string_view bytes);

// Parses tokenizer.json, the file of Hugging Face's tokenizers: the model's vocab and merges with
// ignore_merges; added tokens, which are special pieces whose names are ordinary text here;
// pre_tokenizers ByteLevel, Split by a pattern or a string (isolated), Digits, and a Sequence of
// them that ends with ByteLevel; the normalizer NFC. Throws Error(bad_data), naming the part, for
// another model (WordPiece, Unigram, WordLevel), another normalizer, another pre-tokenizer, a
// prefix space, or a damaged file; and what require_id() throws.
BpeVocabulary read_tokenizer_json(std::string_view bytes, const std::string& path);

// Reads a list of merges or a table of ranks, whose `pattern` is TOKENIZER_PATTERN; returns nullopt
// for a file of another format.
std::optional<BpeVocabulary> read_bpe_vocabulary(std::string_view bytes, const std::string& path,
                                                 const std::string& pattern = {});

}  // namespace tg
