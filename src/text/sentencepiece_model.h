#pragma once
#include <memory>
#include <string>

#include "text/model_proto.h"
#include "text/tokenizer_model.h"
#include "text/unigram_path.h"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace tg {

// SentencePiece model, read by the SentencePiece library.
class SentencePieceModel final : public TokenizerModel {
 public:
  // Parses the file contents `bytes`; `path` is for messages. Throws Error(bad_data) if they are
  // truncated or no SentencePiece model, and Error(config) for more than
  // kMaxPieces.
  SentencePieceModel(std::string_view bytes, const std::string& path);
  ~SentencePieceModel() override;

  void encode(std::string_view text, std::vector<TokenId>& ids) const override;
  void encode_continued(std::string_view part, std::vector<TokenId>& ids) const override;
  // Unlike encode(), uses the library's memory for long texts of unigram models too.
  void encode_parts(std::string_view text, bool continued, std::vector<TokenId>& ids,
                    std::vector<std::string>& parts) const override;
  std::string decode(std::span<const TokenId> ids) const override;
  std::string decode_continued(std::span<const TokenId> ids) const override;
  std::string normalized(std::string_view text) const override;

 private:
  SpaceMarks find_spaces() const;
  // Encodes a long text with a unigram model, in memory that does not grow with the text.
  void encode_long(std::string_view text, std::vector<TokenId>& ids) const;
  std::string joined_pieces(std::string_view text) const;
  std::unique_ptr<const UnigramPieces> unigram_pieces();
  bool find_whether_splittable() const;

  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;
  ModelProto proto_;
  std::unique_ptr<const UnigramPieces> unigram_;  // null: encode_long() does not support the model
  std::vector<std::string> whole_;  // user-defined pieces, which normalization leaves unchanged
};

}  // namespace tg
