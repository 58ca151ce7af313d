#pragma once
// Vocabulary in one file format, behind Tokenizer. Const methods are thread-safe.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/token_id.h"

namespace tg {

enum class PieceKind : std::uint8_t { normal, unknown, control, unused, byte };

// Returns the byte of a piece of kind `byte`, such as "<0xE4>".
inline char byte_of_piece(const std::string& piece) {
  return static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16));
}

// Representation of spaces in the pieces.
struct SpaceMarks {
  std::string_view mark = " ";  // spelling of a space in a piece
  // The first, or the last, mark of a document is added by the normalizer, not part of its text.
  bool first_is_added = false, last_is_added = false;
  // No piece is a lone space: byte pieces spell it or, if there are none, it is unknown.
  bool may_be_spelled = false;
};

class TokenizerModel {
 public:
  TokenizerModel() = default;
  TokenizerModel(const TokenizerModel&) = delete;
  TokenizerModel& operator=(const TokenizerModel&) = delete;
  virtual ~TokenizerModel() = default;

  const std::vector<std::string>& pieces() const { return pieces_; }  // by id
  const std::vector<PieceKind>& kinds() const { return kinds_; }

  // Methods of Tokenizer with these names.
  std::string_view format() const { return format_; }
  SpaceMarks spaces() const { return spaces_; }
  const std::string& normalisation() const { return normalisation_; }
  const std::string& keeping_flags() const { return keeping_flags_; }
  bool byte_level() const { return byte_level_; }
  int bos_id() const { return bos_id_; }
  int unknown_id() const { return unknown_id_; }
  // Returns whether a text may be split before a space between two ASCII letters or digits.
  bool splittable() const { return splittable_; }

  virtual void encode(std::string_view text, std::vector<TokenId>& ids) const = 0;
  virtual void encode_continued(std::string_view part, std::vector<TokenId>& ids) const = 0;
  // Encodes like encode() or, if `continued`, encode_continued(), and appends for each id its part
  // of `text`. The parts are in order; what normalization removes at the ends is in none.
  virtual void encode_parts(std::string_view text, bool continued, std::vector<TokenId>& ids,
                            std::vector<std::string>& parts) const = 0;
  virtual std::string decode(std::span<const TokenId> ids) const = 0;
  virtual std::string decode_continued(std::span<const TokenId> ids) const = 0;
  virtual std::string normalized(std::string_view text) const { return std::string(text); }

 protected:
  std::vector<std::string> pieces_;
  std::vector<PieceKind> kinds_;
  std::string format_, normalisation_, keeping_flags_;
  SpaceMarks spaces_;
  bool byte_level_ = false, splittable_ = false;
  int bos_id_ = -1, unknown_id_ = -1;
};

}  // namespace tg
