#pragma once
// A vocabulary: encodes text as token ids and describes its pieces. Const methods are thread-safe.
// Its file is a SentencePiece model, or GPT-2's byte-level BPE: its merges (vocab.bpe, merges.txt)
// or tiktoken's table of it (*.tiktoken). With CaseOps (text/caseops.h) all text that goes in or
// comes out is the text itself, and its pieces are those of the text without capitals.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer_model.h"

namespace tg {

// The bytes of a tokenizer's file. Errors: missing_input, bad_data (empty, or over 1 GiB), io.
std::string read_tokenizer_file(const std::string& path);

class Tokenizer {
 public:
  using Kind = PieceKind;

  // vocab_size 0: any. A byte-level vocabulary may have fewer pieces: GPT-2's 50,257 are trained as
  // 50,304.
  // Errors: missing_input; bad_data (empty, cut short or none of these formats); config (vocab_size
  // is not the number of pieces, or ids do not fit 16 bits; with caseops, an operator is no piece).
  explicit Tokenizer(const std::string& path, int vocab_size = 0, bool caseops = false);

  const std::string& path() const { return path_; }
  // The ids of kCaseOperators; empty without CaseOps.
  const std::vector<std::uint16_t>& case_operators() const { return case_operators_; }
  // Whether all of kCaseOperators are pieces of their own, with `caseops` or without.
  bool is_for_caseops() const;
  std::string_view format() const { return model_->format(); }  // "sentencepiece" or "gpt2"
  // Whether pieces are the bytes of the text, spaces included, and decode() gives bytes that may be
  // no UTF-8. In a SentencePiece model a piece is UTF-8, whose leading space is a mark.
  bool byte_level() const { return model_->byte_level(); }
  SpaceMarks spaces() const { return model_->spaces(); }
  // What encode() changes of a text, by the names of the model's settings; empty: nothing.
  std::string normalisation() const { return model_->normalisation(); }
  int pieces() const { return static_cast<int>(model_->pieces().size()); }
  int bos_id() const { return model_->bos_id(); }  // before every document; -1: none
  int unknown_id() const { return model_->unknown_id(); }
  Kind kind(int id) const { return model_->kinds()[static_cast<std::size_t>(id)]; }
  const std::string& piece(int id) const { return model_->pieces()[static_cast<std::size_t>(id)]; }

  // Appends the ids of `text`. Errors: bad_data.
  void encode(std::string_view text, std::vector<std::uint16_t>& ids) const;
  std::string decode(std::span<const std::uint16_t> ids) const;
  // The text that ids add to a text before them: with the space before its first word.
  std::string decode_continued(std::span<const std::uint16_t> ids) const;

  // Flags of spm_train that would keep text as it is where this model's own do not; empty: it does.
  std::string keeping_flags() const { return model_->keeping_flags(); }
  // What the model leaves of a text before it finds pieces, also those that it does not know.
  std::string normalized(std::string_view text) const;

  // Splits a text into parts of about `size` bytes such that encode() of the first and
  // encode_continued() of the others give the ids of the whole. One part if the model does not
  // allow that.
  std::vector<std::string_view> split(std::string_view text, std::size_t size) const;
  void encode_continued(std::string_view part, std::vector<std::uint16_t>& ids) const;

  // As encode() or, `continued`, encode_continued(); appends for each id the bytes of the text that
  // it stands for, as a byte sidecar has them (data/text_bytes.h). Errors: bad_data (more than
  // 65,535).
  void encode_counted(std::string_view text, bool continued, std::vector<std::uint16_t>& ids,
                      std::vector<std::uint16_t>& bytes) const;

  // The vocabulary itself, whose text with CaseOps is the coded one.
  const TokenizerModel& model() const { return *model_; }

 private:
  void find_case_operators();

  std::string path_;
  std::unique_ptr<const TokenizerModel> model_;
  std::vector<std::uint16_t> case_operators_;
};

// Errors: config (is_for_caseops() and opened without, so that operators would be text).
void require_caseops_as_made(const Tokenizer& tokenizer);

}  // namespace tg
