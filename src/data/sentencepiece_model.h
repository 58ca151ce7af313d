#pragma once
#include <memory>

#include "data/model_proto.h"
#include "data/tokenizer_model.h"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace tg {

// A SentencePiece model, as its library reads it.
class SentencePieceModel final : public TokenizerModel {
 public:
  // Of a file's `bytes`; `path` for messages. Errors: bad_data (cut short or no SentencePiece
  // model); config (ids do not fit 16 bits).
  SentencePieceModel(std::string_view bytes, const std::string& path);
  ~SentencePieceModel() override;

  std::string_view format() const override { return "sentencepiece"; }
  bool byte_level() const override { return false; }
  int bos_id() const override;
  int unknown_id() const override;
  void encode(std::string_view text, std::vector<std::uint16_t>& ids) const override;
  void encode_continued(std::string_view part, std::vector<std::uint16_t>& ids) const override;
  std::string decode(std::span<const std::uint16_t> ids) const override;
  std::string decode_continued(std::span<const std::uint16_t> ids) const override;
  std::string keeping_flags() const override;
  std::string normalized(std::string_view text) const override;
  bool splittable() const override { return splittable_; }

 private:
  bool find_whether_splittable(bool bpe) const;

  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;
  bool splittable_ = false;
  ModelProto proto_;
};

}  // namespace tg
