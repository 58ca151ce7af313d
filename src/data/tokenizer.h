#pragma once
// A SentencePiece model: encodes text as token ids and describes its pieces. Const methods are
// thread-safe.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace tg {

class Tokenizer {
 public:
  // vocab_size 0: any.
  // Errors: missing_input; bad_data (empty, cut short or no SentencePiece model); config
  // (vocab_size is not the number of pieces, or ids do not fit 16 bits).
  explicit Tokenizer(const std::string& path, int vocab_size = 0);
  Tokenizer(Tokenizer&&) noexcept;
  ~Tokenizer();

  int pieces() const { return static_cast<int>(pieces_.size()); }
  int bos_id() const;  // -1: none
  int unknown_id() const;

  enum class Kind : std::uint8_t { normal, unknown, control, unused, byte };
  Kind kind(int id) const { return kinds_[static_cast<std::size_t>(id)]; }
  const std::string& piece(int id) const { return pieces_[static_cast<std::size_t>(id)]; }  // UTF-8

  // Appends the ids of `text`. Errors: bad_data.
  void encode(std::string_view text, std::vector<std::uint16_t>& ids) const;
  std::string decode(std::span<const std::uint16_t> ids) const;
  // The text that ids add to a text before them: with the space before its first word.
  std::string decode_continued(std::span<const std::uint16_t> ids) const;

  // Splits a text into parts of about `size` bytes such that encode() of the first and
  // encode_continued() of the others give the ids of the whole. One part if the model does not
  // allow that.
  std::vector<std::string_view> split(std::string_view text, std::size_t size) const;
  void encode_continued(std::string_view part, std::vector<std::uint16_t>& ids) const;

 private:
  bool find_whether_splittable(bool bpe) const;

  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;
  std::vector<std::string> pieces_;
  std::vector<Kind> kinds_;
  bool splittable_ = false;
};

}  // namespace tg
