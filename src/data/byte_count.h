#pragma once
// The bytes of the normalised text that a token was made from: the denominator of bits per byte. A
// space is one byte, however it is written.
//   bytes(x, y) = base[y] + (leading_space[y] and not boundary[x])
// Control, unknown and unused pieces, and ids without a piece, are boundaries of 0 bytes. A byte
// piece is 1 byte; any other piece its text in UTF-8. Of a tokenizer that adds a space before every
// document, leading_space has the first space of a piece, and base does not.
//
// Three kinds of tokenizers need more than a token and the one before it:
//   - one that adds a space behind every document: a boundary takes it off again;
//   - one whose mark is no piece may spell a space by the byte pieces E2 96 81: together they are
//     one byte, and none where the tokenizer added that space;
//   - one with CaseOps, whose operators are 0 bytes, but for one of the text's own behind U+E004.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace tg {

struct ByteTable {
  // Each [max(vocab_size, pieces)].
  std::vector<std::int16_t> base_bytes;
  std::vector<std::uint8_t> leading_space;
  std::vector<std::uint8_t> boundary;
  // Unknown and unused pieces: ids do not tell which text they stand for, and they count 0 bytes,
  // as in the reference implementation.
  std::vector<std::uint16_t> unknown_ids{};
  bool unknown_hide_spaces = false;  // they may be ordinary text, and counts with them are wrong

  // Of the three kinds above; else empty.
  std::vector<std::uint8_t> trailing_space{};   // as the others, of pieces that end in a space
  std::vector<std::uint16_t> spelled_space{};   // the ids that together spell one
  bool first_is_added = false;                  // as SpaceMarks has it
  std::vector<std::uint16_t> case_operators{};  // the ids of kCaseOperators

  // Whether the formula is all.
  bool by_pairs() const {
    return trailing_space.empty() && spelled_space.empty() && case_operators.empty();
  }
  // Whether the token may be U+E004 before an operator of the text.
  bool may_escape(std::uint16_t id) const {
    return !case_operators.empty() && id == case_operators.back();
  }
};

// The bytes that a piece stands for, a leading space included; none for a boundary.
std::string piece_text(const Tokenizer& tokenizer, int id);

ByteTable make_byte_table(const Tokenizer& tokenizer, int vocab_size);

// How many of the tokens are among unknown_ids.
std::int64_t count_unknown(const ByteTable& table, std::span<const std::uint16_t> tokens);

// Counts tokens one by one. What a token counts depends on the three before it at most, and, where
// these begin with one that may_escape(), on all of those in a row.
class ByteCounter {
 public:
  static constexpr std::int64_t context = 3;

  // `table` must outlive this.
  explicit ByteCounter(const ByteTable& table) : table_(table), by_pairs_(table.by_pairs()) {}

  // → the bytes of `id`, behind the ids of all calls before.
  int next(std::uint16_t id) {
    const int bytes =
        table_.base_bytes[id] + (table_.leading_space[id] & static_cast<int>(!behind_boundary_));
    const int total = by_pairs_ ? bytes : bytes + correction(id);
    behind_boundary_ = table_.boundary[id] != 0;
    return total;
  }

 private:
  int correction(std::uint16_t id);
  std::optional<int> bytes_of_operator(std::uint16_t id);

  const ByteTable& table_;
  bool by_pairs_;
  bool behind_boundary_ = false;
  // Where pairs are not enough:
  std::size_t spelled_ = 0;     // ids of spelled_space that were the last ones
  bool spelled_first_ = false;  // they began behind a boundary
  bool behind_space_ = false;
  bool escaped_ = false;  // an operator that comes is one of the text
};

// The bytes of all tokens but the first. `before`: those that decide what the second token counts,
// at least ByteCounter::context − 1, or as many as there are; a table by pairs needs none.
std::int64_t count_bytes(const ByteTable& table, std::span<const std::uint16_t> tokens,
                         std::span<const std::uint16_t> before = {});

}  // namespace tg
