#include "text/bpe_vocabulary.h"

#include <algorithm>

#include "base/error.h"
#include "base/escaped.h"
#include "text/merge_list.h"
#include "text/rank_table.h"

namespace tg {
namespace {

// Pieces that begin a document; the first one that the vocabulary has is used.
constexpr std::string_view kBeginnings[] = {
    kEndOfText, "<|begin_of_text|>", "<|startoftext|>", "<|bos|>", "<s>", "<bos>", "[BOS]"};
constexpr std::size_t kMaxUnused = 1 << 18;  // ids without a piece

}  // namespace

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
  if (id >= vocabulary.pieces.size()) {
    vocabulary.pieces.resize(id + 1);
    vocabulary.kinds.resize(id + 1, PieceKind::unused);
  }
  vocabulary.pieces[id] = name;
  vocabulary.kinds[id] = PieceKind::control;
  return static_cast<int>(id);
}

std::optional<BpeVocabulary> read_bpe_vocabulary(std::string_view bytes, const std::string& path,
                                                 const std::string& pattern) {
  if (is_merge_list(bytes, path)) return read_merge_list(bytes, path);
  if (is_rank_table(bytes, path)) return read_rank_table(bytes, path, pattern);
  return {};
}

}  // namespace tg
