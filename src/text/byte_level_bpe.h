#pragma once
#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/bpe_vocabulary.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer_model.h"

namespace tg {

// Byte-level BPE, as GPT-2's (Radford et al. 2019): splits the text into words of bytes and merges
// adjacent pieces, the pair of lowest rank first. A special piece such as <|endoftext|> begins a
// document; the literal text "<|endoftext|>" is encoded as ordinary text.
class ByteLevelBpe final : public TokenizerModel {
 public:
  explicit ByteLevelBpe(BpeVocabulary vocabulary);

  std::string normalized(std::string_view text) const override;
  void encode(std::string_view text, std::vector<TokenId>& ids) const override;
  // Words are encoded independently, so the preceding text does not matter.
  void encode_continued(std::string_view part, std::vector<TokenId>& ids) const override {
    encode(part, ids);
  }
  void encode_parts(std::string_view text, bool continued, std::vector<TokenId>& ids,
                    std::vector<std::string>& parts) const override;
  std::string decode(std::span<const TokenId> ids) const override;
  std::string decode_continued(std::span<const TokenId> ids) const override { return decode(ids); }

  // Returns whether GPT-2's pattern alone splits text into words.
  bool has_gpt2_words() const { return pre_tokenizer_.is_gpt2(); }
  // Returns the single bytes and the pieces that merges make of their bytes, each with the lowest
  // rank of its merges.
  std::vector<RankedPiece> ranked_pieces() const;

 private:
  void merge(std::string_view word, std::vector<TokenId>& ids) const;
  void encode_normalized(std::string_view text, std::vector<TokenId>& ids) const;

  PreTokenizer pre_tokenizer_;
  bool nfc_;
  std::unordered_map<std::uint64_t, BpeVocabulary::Merge> merges_;  // BpeVocabulary::merges
  std::array<TokenId, 256> id_of_byte_{};
  std::unordered_map<std::string_view, TokenId> words_;  // words that are one piece
};

}  // namespace tg
