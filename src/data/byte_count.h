#pragma once
// The bytes of text that a token decodes to: the denominator of bits per byte.
//   bytes(x, y) = base[y] + (leading_space[y] and not boundary[x])
// Control, unknown and unused pieces, and ids without a piece, are boundaries of 0 bytes. A byte
// piece is 1 byte; any other piece its UTF-8 length without one leading space mark, which
// leading_space counts as a space. A byte-level piece is its length in bytes, its space included.
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "data/tokenizer.h"

namespace tg {

// Each [max(vocab_size, pieces)].
struct ByteTable {
  std::vector<std::int16_t> base_bytes;
  std::vector<std::uint8_t> leading_space;
  std::vector<std::uint8_t> boundary;
  // The tokenizer's: its format, and the number of its pieces; a padded vocabulary has more ids.
  std::string_view format{};
  int pieces = 0;
};

ByteTable make_byte_table(const Tokenizer& tokenizer, int vocab_size);

// x: inputs, y: targets, [n] each; ids within the table.
std::int64_t count_bytes(const ByteTable& table, std::span<const std::uint16_t> x,
                         std::span<const std::uint16_t> y);

}  // namespace tg
