#include "data/byte_count.h"

#include <algorithm>
#include <cassert>
#include <string_view>

namespace tg {

ByteTable make_byte_table(const Tokenizer& tokenizer, int vocab_size) {
  constexpr std::string_view space_mark = "\u2581";
  const auto size = static_cast<std::size_t>(std::max(vocab_size, tokenizer.pieces()));
  ByteTable table{.base_bytes = std::vector<std::int16_t>(size, 0),
                  .leading_space = std::vector<std::uint8_t>(size, 0),
                  .boundary = std::vector<std::uint8_t>(size, 1),
                  .format = tokenizer.format(),
                  .pieces = tokenizer.pieces()};
  for (int id = 0; id < tokenizer.pieces(); ++id) {
    const auto kind = tokenizer.kind(id);
    if (kind != Tokenizer::Kind::normal && kind != Tokenizer::Kind::byte) continue;
    const auto index = static_cast<std::size_t>(id);
    table.boundary[index] = 0;
    if (kind == Tokenizer::Kind::byte) {
      table.base_bytes[index] = 1;
      continue;
    }
    std::string_view piece = tokenizer.piece(id);
    if (!tokenizer.byte_level() && piece.starts_with(space_mark)) {
      table.leading_space[index] = 1;
      piece.remove_prefix(space_mark.size());
    }
    table.base_bytes[index] = static_cast<std::int16_t>(piece.size());
  }
  return table;
}

std::int64_t count_bytes(const ByteTable& table, std::span<const std::uint16_t> x,
                         std::span<const std::uint16_t> y) {
  assert(x.size() == y.size());
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    bytes += table.base_bytes[y[i]];
    bytes += table.leading_space[y[i]] & (table.boundary[x[i]] ^ 1);
  }
  return bytes;
}

}  // namespace tg
