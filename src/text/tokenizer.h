#pragma once
// Tokenizer: encodes text as token ids and describes the pieces of its vocabulary. Const methods
// are thread-safe. The file is a SentencePiece model, or a byte-level BPE: tokenizer.json, merges
// (vocab.bpe, merges.txt) or tiktoken's table of ranks (*.tiktoken). With CaseOps (text/caseops.h)
// all texts of this interface are original text, while the pieces are parts of the text without
// capitals.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer_model.h"

namespace tg {

// Reads a tokenizer's file. Throws Error(missing_input), Error(bad_data) if it is empty or over 1
// GiB, and Error(io).
std::string read_tokenizer_file(const std::string& path);

// What a tokenizer's file leaves open; values as of the settings with these names.
struct TokenizerChoices {
  std::string pattern;                  // TOKENIZER_PATTERN, of a table of ranks
  std::string document_start = "auto";  // auto: its BOS; none; or the id of a special piece
};

class Tokenizer {
 public:
  using Kind = PieceKind;

  // vocab_size 0 accepts any vocabulary. A byte-level vocabulary may have fewer pieces: models for
  // GPT-2's 50,257 pieces have vocab_size 50,304. Throws Error(missing_input); Error(bad_data) if
  // the file is empty, truncated or of none of these formats; Error(config) if vocab_size is not
  // the number of pieces, there are more than kMaxPieces or, with `caseops`, an operator is no
  // piece.
  // Also throws Error(usage) for a document_start that is no value of it, and Error(config) for one
  // that is no special piece, and for a pattern of a file that states its own.
  explicit Tokenizer(const std::string& path, int vocab_size = 0, bool caseops = false,
                     const TokenizerChoices& choices = {});

  const std::string& path() const { return path_; }
  // Returns the ids of kCaseOperators; empty without CaseOps.
  const std::vector<TokenId>& case_operators() const { return case_operators_; }
  // Returns whether each of kCaseOperators is a piece, even if opened without `caseops`.
  bool is_for_caseops() const;
  std::string_view format() const { return model_->format(); }  // "sentencepiece", "bpe", "gpt2"
  // Returns whether the pieces are bytes of the text, including spaces, so that decode() may return
  // invalid UTF-8. The pieces of a SentencePiece model are UTF-8, with a mark for a leading space.
  bool byte_level() const { return model_->byte_level(); }
  SpaceMarks spaces() const { return model_->spaces(); }
  // Returns the names of the model's settings by which encode() changes a text; empty: none.
  const std::string& normalisation() const { return model_->normalisation(); }
  int pieces() const { return static_cast<int>(model_->pieces().size()); }
  int bos_id() const { return bos_id_; }  // before every document and prompt; -1: none
  const TokenizerChoices& choices() const { return choices_; }
  int unknown_id() const { return model_->unknown_id(); }
  Kind kind(int id) const { return model_->kinds()[static_cast<std::size_t>(id)]; }
  const std::string& piece(int id) const { return model_->pieces()[static_cast<std::size_t>(id)]; }

  // Appends the ids of `text`. Throws Error(bad_data).
  void encode(std::string_view text, std::vector<TokenId>& ids) const;
  std::string decode(std::span<const TokenId> ids) const;
  // Decodes the continuation of a text: keeps the space before its first word.
  std::string decode_continued(std::span<const TokenId> ids) const;

  // Returns the flags of spm_train that would preserve text where this model's settings do not;
  // empty: it preserves text.
  const std::string& keeping_flags() const { return model_->keeping_flags(); }
  // Returns the text after the model's normalization, which precedes its search for pieces;
  // includes characters that are in no piece.
  std::string normalized(std::string_view text) const;

  // Splits a text into parts of about `size` bytes, so that encode() of the first and
  // encode_continued() of the others give the ids of the whole. Returns one part if the model does
  // not allow that.
  std::vector<std::string_view> split(std::string_view text, std::size_t size) const;
  void encode_continued(std::string_view part, std::vector<TokenId>& ids) const;

  // Encodes like encode() or, if `continued`, encode_continued(), and appends for each id its
  // number of bytes of the text, as in a byte sidecar (data/text_bytes.h). Throws Error(bad_data)
  // if one exceeds 65,535.
  void encode_counted(std::string_view text, bool continued, std::vector<TokenId>& ids,
                      std::vector<std::uint16_t>& bytes) const;

  // Returns the underlying model, whose text with CaseOps is the encoded one.
  const TokenizerModel& model() const { return *model_; }

 private:
  void find_case_operators();
  int find_document_start() const;

  std::string path_;
  TokenizerChoices choices_;
  std::unique_ptr<const TokenizerModel> model_;
  int bos_id_;
  std::vector<TokenId> case_operators_;
};

// Throws Error(config) if the tokenizer is_for_caseops() but was opened without, so that operators
// would count as text.
void require_caseops_as_made(const Tokenizer& tokenizer);

}  // namespace tg
