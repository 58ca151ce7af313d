#include "text/bpe_builder.h"

#include <utility>

#include "base/error.h"
#include "base/escaped.h"

namespace tg {

void refuse_line(const std::string& path, const TextLine& line, const std::string& expected) {
  fail(ExitCode::bad_data, "tokenizer {} line {}: expected {}, found \"{}\"; copy the file again",
       path, line.number, expected, escaped(line.text));
}

TokenId BpeBuilder::add(const std::string& piece, std::int64_t line) {
  constexpr std::size_t kMaxBytes = 1 << 10;  // bytes; GPT-2's largest piece has 128
  // One id is reserved for <|endoftext|>.
  REQUIRE(size() + 1 < std::size_t{kMaxPieces}, ExitCode::config,
          "tokenizer {} line {} is too much for a vocabulary (at most {} pieces)", path_, line,
          kMaxPieces);
  REQUIRE(piece.size() <= kMaxBytes, ExitCode::bad_data,
          "tokenizer {} line {} makes a piece of {} bytes (expected at most {}); copy the file "
          "again",
          path_, line, piece.size(), kMaxBytes);
  const auto id = static_cast<TokenId>(size());
  REQUIRE(ids_.emplace(piece, id).second, ExitCode::bad_data,
          "tokenizer {} line {} makes a piece that is there already, id {} (expected each piece "
          "once); copy the file again",
          path_, line, ids_.at(piece));
  vocabulary_.pieces.push_back(piece);
  return id;
}

void BpeBuilder::add_merge(TokenId left, TokenId right, TokenId id) {
  vocabulary_.merges.emplace(BpeVocabulary::pair(left, right),
                             BpeVocabulary::Merge{.rank = id, .id = id});
}

std::optional<TokenId> BpeBuilder::find(const std::string& piece) const {
  const auto found = ids_.find(piece);
  if (found == ids_.end()) return {};
  return found->second;
}

BpeVocabulary BpeBuilder::finish() && {
  vocabulary_.kinds.assign(size(), PieceKind::normal);
  return std::move(vocabulary_);
}

}  // namespace tg
