#include "data/byte_count.h"

#include <algorithm>
#include <string_view>

#include "base/is_in.h"
#include "base/strings.h"
#include "text/caseops.h"

namespace tg {
namespace {

// Returns the byte pieces of the mark, in order. A model that has some byte pieces has all.
std::vector<TokenId> spelling_of(std::string_view mark, const Tokenizer& tokenizer) {
  std::vector<TokenId> ids;
  for (const char byte : mark) {
    for (int id = 0; id < tokenizer.pieces(); ++id) {
      const bool is_byte = tokenizer.kind(id) == Tokenizer::Kind::byte;
      if (is_byte && byte_of_piece(tokenizer.piece(id)) == byte)
        ids.push_back(static_cast<TokenId>(id));
    }
  }
  return ids;
}

}  // namespace

std::string piece_text(const Tokenizer& tokenizer, int id) {
  const std::string& piece = tokenizer.piece(id);
  switch (tokenizer.kind(id)) {
    case Tokenizer::Kind::normal:
      return replaced(piece, tokenizer.spaces().mark, " ");
    case Tokenizer::Kind::byte:
      return {byte_of_piece(piece)};
    default:
      return {};
  }
}

ByteTable make_byte_table(const Tokenizer& tokenizer, int vocab_size) {
  const auto spaces = tokenizer.spaces();
  const auto size = static_cast<std::size_t>(std::max(vocab_size, tokenizer.pieces()));
  ByteTable table{.base_bytes = std::vector<std::int16_t>(size, 0),
                  .leading_space = std::vector<std::uint8_t>(size, 0),
                  .boundary = std::vector<std::uint8_t>(size, 1),
                  .first_is_added = spaces.first_is_added};
  if (spaces.last_is_added) table.trailing_space.assign(size, 0);
  if (spaces.may_be_spelled) table.spelled_space = spelling_of(spaces.mark, tokenizer);
  table.unknown_hide_spaces = spaces.may_be_spelled && table.spelled_space.empty();
  for (int id = 0; id < tokenizer.pieces(); ++id) {
    const auto kind = tokenizer.kind(id);
    if (kind == Tokenizer::Kind::unknown || kind == Tokenizer::Kind::unused)
      table.unknown_ids.push_back(static_cast<TokenId>(id));
    const auto text = piece_text(tokenizer, id);
    if (text.empty()) continue;
    const auto index = static_cast<std::size_t>(id);
    const bool is_byte = kind == Tokenizer::Kind::byte;
    const bool leads = spaces.first_is_added && !is_byte && text.starts_with(' ');
    table.boundary[index] = 0;
    table.leading_space[index] = leads;
    table.base_bytes[index] = static_cast<std::int16_t>(text.size() - leads);
    if (spaces.last_is_added) table.trailing_space[index] = !is_byte && text.ends_with(' ');
  }
  table.case_operators = tokenizer.case_operators();
  for (const auto id : table.case_operators) table.base_bytes[id] = 0;
  return table;
}

std::int64_t count_unknown(const ByteTable& table, std::span<const TokenId> tokens) {
  std::int64_t count = 0;
  for (const auto id : table.unknown_ids) count += std::ranges::count(tokens, id);
  return count;
}

int ByteCounter::correction(TokenId id) {
  const bool is_text = escaped_;
  escaped_ = !is_text && table_.may_escape(id);
  if (is_in(table_.case_operators, id)) {
    after_space_ = false;
    spelled_ = 0;
    return is_text ? static_cast<int>(kCaseOperatorBytes) : 0;
  }
  const auto& spelling = table_.spelled_space;
  if (table_.boundary[id] != 0) {
    const bool added = after_space_ && !table_.trailing_space.empty();
    after_space_ = false;
    spelled_ = 0;
    return added ? -1 : 0;
  }
  after_space_ = !table_.trailing_space.empty() && table_.trailing_space[id] != 0;
  if (spelling.empty()) return 0;
  if (id != spelling[spelled_]) spelled_ = 0;
  if (id != spelling[spelled_]) return 0;
  if (spelled_ == 0) spelled_first_ = after_boundary_;
  if (++spelled_ < spelling.size()) return 0;
  spelled_ = 0;
  after_space_ = true;
  const int space = spelled_first_ && table_.first_is_added ? 0 : 1;
  return space - static_cast<int>(spelling.size());
}

std::int64_t count_bytes(const ByteTable& table, const Ids& tokens,
                         std::span<const TokenId> before) {
  ByteCounter counter(table);
  for (const auto id : before) counter.next(id);
  std::int64_t bytes = 0;
  std::visit(
      [&](auto ids) {
        counter.next(ids.front());
        for (const auto id : ids.subspan(1)) bytes += counter.next(id);
      },
      tokens);
  return bytes;
}

}  // namespace tg
