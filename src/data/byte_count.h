#pragma once
// Bytes of the normalized text that a token was made from: the denominator of bits per byte. A
// space is one byte, in whatever spelling.
//   bytes(x, y) = base[y] + (leading_space[y] and not boundary[x])
// Control, unknown and unused pieces, and ids without a piece, are boundaries of 0 bytes. A byte
// piece is 1 byte; any other piece is its text in UTF-8. If a tokenizer adds a space before every
// document, a leading space of a piece is counted by leading_space, not by base.
//
// Three kinds of tokenizers need more context than the preceding token:
//   - one that adds a space after every document: a following boundary subtracts it;
//   - one without a piece for its mark may spell a space by the byte pieces E2 96 81: together they
//     count one byte, or none if the tokenizer added the space;
//   - one with CaseOps, whose operators count 0 bytes, except an operator of the text after U+E004.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/ids.h"
#include "text/tokenizer.h"

namespace tg {

struct ByteTable {
  // Each array is [max(vocab_size, pieces)].
  std::vector<std::int16_t> base_bytes;
  std::vector<std::uint8_t> leading_space;
  std::vector<std::uint8_t> boundary;
  // Unknown and unused pieces, whose ids do not determine their text; they count 0 bytes, as in the
  // reference implementation.
  std::vector<TokenId> unknown_ids{};
  bool unknown_hide_spaces = false;  // they may be ordinary text, which makes the counts wrong

  // For the three kinds above; else empty.
  std::vector<std::uint8_t> trailing_space{};  // as leading_space, for pieces that end in a space
  std::vector<TokenId> spelled_space{};        // byte pieces that together spell a space
  bool first_is_added = false;                 // SpaceMarks::first_is_added
  std::vector<TokenId> case_operators{};       // ids of kCaseOperators

  // Returns whether the formula above suffices.
  bool by_pairs() const {
    return trailing_space.empty() && spelled_space.empty() && case_operators.empty();
  }
  // Returns whether the token may be U+E004 before an operator of the text.
  bool may_escape(TokenId id) const {
    return !case_operators.empty() && id == case_operators.back();
  }
};

// Returns the bytes that a piece stands for, including a leading space; empty for a boundary.
std::string piece_text(const Tokenizer& tokenizer, int id);

ByteTable make_byte_table(const Tokenizer& tokenizer, int vocab_size);

// Returns how many of the tokens are in unknown_ids.
std::int64_t count_unknown(const ByteTable& table, std::span<const TokenId> tokens);

// Counts tokens one by one. The count of a token depends on at most the three before it and, if
// these begin with one that may_escape(), on all consecutive ones of that kind.
class ByteCounter {
 public:
  static constexpr std::int64_t context = 3;

  // `table` must outlive this object.
  explicit ByteCounter(const ByteTable& table) : table_(table), by_pairs_(table.by_pairs()) {}

  // Returns the bytes of `id` after the ids of all previous calls.
  int next(TokenId id) {
    const int bytes =
        table_.base_bytes[id] + (table_.leading_space[id] & static_cast<int>(!after_boundary_));
    const int total = by_pairs_ ? bytes : bytes + correction(id);
    after_boundary_ = table_.boundary[id] != 0;
    return total;
  }

 private:
  int correction(TokenId id);

  const ByteTable& table_;
  bool by_pairs_;
  bool after_boundary_ = false;
  // Used if pairs are not enough:
  std::size_t spelled_ = 0;     // matched prefix of spelled_space
  bool spelled_first_ = false;  // the prefix began after a boundary
  bool after_space_ = false;
  bool escaped_ = false;  // the next operator is part of the text
};

// Returns the bytes of all tokens but the first. `before`: the preceding tokens on which the second
// token's count depends, at least ByteCounter::context − 1 or all that there are; empty for a table
// by_pairs().
std::int64_t count_bytes(const ByteTable& table, const Ids& tokens,
                         std::span<const TokenId> before = {});

}  // namespace tg
