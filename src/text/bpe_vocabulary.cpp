#include "text/bpe_vocabulary.h"

#include <algorithm>

#include "base/error.h"
#include "base/escaped.h"

namespace tg {
namespace {

// Pieces that begin a document; the first one that the vocabulary has is used.
constexpr std::string_view kBeginnings[] = {
    kEndOfText, "<|begin_of_text|>", "<|startoftext|>", "<|bos|>", "<s>", "<bos>", "[BOS]"};
constexpr std::size_t kMaxUnused = 1 << 18;  // ids without a piece

}  // namespace

void BpeVocabulary::add_ids_to(std::size_t id) {
  if (id < pieces.size()) return;
  pieces.resize(id + 1);
  kinds.resize(id + 1, PieceKind::unused);
}

void require_id(std::uint64_t id, std::string_view piece, std::size_t pieces,
                std::string_view where) {
  REQUIRE(id < std::uint64_t{kMaxPieces}, ExitCode::config,
          "{}: \"{}\" has the id {}, too much for a vocabulary (at most {} pieces)", where,
          escaped(piece, 40), id, kMaxPieces);
  REQUIRE(id < pieces + kMaxUnused, ExitCode::bad_data,
          "{}: \"{}\" has the id {}, although there are {} pieces (expected an id below {}); copy "
          "the file again",
          where, escaped(piece, 40), id, pieces, pieces + kMaxUnused);
}

int beginning_of_documents(const BpeVocabulary& vocabulary) {
  for (const auto name : kBeginnings) {
    const auto found = std::ranges::find(vocabulary.pieces, name);
    const auto id = found - vocabulary.pieces.begin();
    if (found != vocabulary.pieces.end() &&
        vocabulary.kinds[static_cast<std::size_t>(id)] == PieceKind::control)
      return static_cast<int>(id);
  }
  return -1;
}

int add_special(BpeVocabulary& vocabulary, std::size_t id, std::string_view name) {
  vocabulary.add_ids_to(id);
  vocabulary.pieces[id] = name;
  vocabulary.kinds[id] = PieceKind::control;
  return static_cast<int>(id);
}

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
  vocabulary_.kinds.push_back(PieceKind::normal);
  return id;
}

std::optional<TokenId> BpeBuilder::find(const std::string& piece) const {
  const auto found = ids_.find(piece);
  if (found == ids_.end()) return {};
  return found->second;
}

std::optional<BpeVocabulary> read_bpe_vocabulary(std::string_view bytes, const std::string& path,
                                                 const std::string& pattern) {
  if (is_merge_list(bytes, path)) return read_merge_list(bytes, path);
  if (is_rank_table(bytes, path)) return read_rank_table(bytes, path, pattern);
  return {};
}

}  // namespace tg
