#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/escaped.h"
#include "files/file.h"
#include "files/json_file.h"
#include "text/bpe_vocabulary.h"
#include "text/byte_spelling.h"

namespace tg {
namespace {

// Ids of a merge list's pieces, from the JSON file in the same folder.
struct PublishedIds {
  std::string path;
  std::vector<std::string> spelled;  // by id, in GPT-2's spelling; empty: no piece
};

constexpr std::int64_t kMaxFileBytes = 16 << 20;

constexpr struct {
  std::string_view merges, ids;
} kNames[] = {{"merges.txt", "vocab.json"}, {"vocab.bpe", "encoder.json"}};

// Reads vocab.json for merges.txt, or encoder.json for vocab.bpe, in the same folder and with the
// same file name prefix; returns nullopt if there is no such file. Throws Error(bad_data) if it is
// no object of pieces and ids or repeats an id, Error(io), and what require_id() throws.
std::optional<PublishedIds> find_published_ids(const std::string& merges) {
  const auto* const name =
      std::ranges::find_if(kNames, [&](const auto& one) { return merges.ends_with(one.merges); });
  if (name == std::end(kNames)) return {};
  const auto path = merges.substr(0, merges.size() - name->merges.size()).append(name->ids);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {};
  const auto json = parse_json(read_whole_file(path, kMaxFileBytes));
  REQUIRE(
      json && json->is_object(), ExitCode::bad_data,
      "{} beside {}: expected a JSON object of pieces and their ids, found something else; copy "
      "it again",
      path, merges);
  PublishedIds published{.path = path, .spelled = {}};
  for (const auto& [piece, value] : json->items()) {
    REQUIRE(value.is_number_unsigned() && !piece.empty(), ExitCode::bad_data,
            "{}: \"{}\" is no piece with an id (expected a number from 0 on, found {}); copy it "
            "again",
            path, escaped(piece, 40), value.type_name());
    const auto id = value.get<std::uint64_t>();
    require_id(id, piece, json->size(), path);
    if (id >= published.spelled.size()) published.spelled.resize(id + 1);
    auto& place = published.spelled[id];
    REQUIRE(place.empty(), ExitCode::bad_data,
            "{}: \"{}\" and \"{}\" have the id {} (expected one piece); copy it again", path,
            escaped(place, 40), escaped(piece, 40), id);
    place = piece;
  }
  return published;
}

constexpr std::string_view version_mark = "#version";

// Parser of the lines of a merge list after "#version: 0.2".
class MergeLines {
 public:
  MergeLines(std::string_view bytes, const std::string& path) : path_(path), lines_(bytes) {
    const auto first = lines_.next();
    if (!first || !first->text.starts_with(version_mark))
      refuse_line(path_, first.value_or(TextLine{.text = "", .number = 1}), "\"#version: 0.2\"");
  }

  struct Merge {
    TextLine line;
    std::string left, right;  // bytes
  };
  std::optional<Merge> next() {
    const auto line = lines_.next();
    if (!line) return {};
    const auto space = line->text.find(' ');
    if (space == std::string_view::npos) refuse_merge(*line);
    auto left = bytes_spelled(line->text.substr(0, space));
    auto right = bytes_spelled(line->text.substr(space + 1));
    if (!left || !right) refuse_merge(*line);
    return Merge{.line = *line, .left = *std::move(left), .right = *std::move(right)};
  }
  [[noreturn]] void refuse_merge(const TextLine& line) const {
    refuse_line(path_, line, "two pieces that earlier lines make, with a space between them");
  }

 private:
  const std::string& path_;
  TextLines lines_;
};

BpeVocabulary read_own_list(std::string_view bytes, const std::string& path) {
  BpeBuilder builder(path);
  for (const auto byte : bytes_in_order()) builder.add({static_cast<char>(byte)}, 0);
  MergeLines lines(bytes, path);
  while (const auto merge = lines.next()) {
    const auto left = builder.find(merge->left), right = builder.find(merge->right);
    if (!left || !right) lines.refuse_merge(merge->line);
    builder.add_merge(*left, *right, builder.add(merge->left + merge->right, merge->line.number));
  }
  auto vocabulary = std::move(builder).finish();
  vocabulary.bos_id = add_special(vocabulary, vocabulary.pieces.size(), kEndOfText);
  return vocabulary;
}

// Merge list with published ids: pieces and special pieces come in any order, and several merges
// may make one piece.
class PublishedList {
 public:
  PublishedList(std::string_view bytes, const std::string& path, const PublishedIds& published)
      : path_(path), published_(published) {
    const auto size = published.spelled.size();
    vocabulary_.pieces = published.spelled;
    vocabulary_.kinds.assign(size, PieceKind::control);
    for (std::size_t id = 0; id < size; ++id) {
      if (published.spelled[id].empty()) vocabulary_.kinds[id] = PieceKind::unused;
      if (const auto piece = bytes_spelled(published.spelled[id]))
        ids_.emplace(*piece, static_cast<TokenId>(id));
    }
    for (const auto byte : bytes_in_order())
      add_piece({static_cast<char>(byte)}, fmt::format("the byte 0x{:02x}", byte));
    MergeLines lines(bytes, path);
    while (const auto merge = lines.next()) add(*merge);
    require_whole();
    vocabulary_.bos_id = beginning_of_documents(vocabulary_);
  }
  BpeVocabulary take() && { return std::move(vocabulary_); }

 private:
  TokenId add_piece(const std::string& piece, const std::string& what) {
    const auto found = ids_.find(piece);
    REQUIRE(found != ids_.end(), ExitCode::bad_data,
            "tokenizer {}: {} is no piece in {} beside it (expected an id of each; the two are not "
            "of one tokenizer); copy both files again, or move that one away",
            path_, what, published_.path);
    vocabulary_.pieces[found->second] = piece;
    vocabulary_.kinds[found->second] = PieceKind::normal;
    return found->second;
  }
  void add(const MergeLines::Merge& merge) {
    const auto where =
        fmt::format("line {}'s \"{}\"", merge.line.number, escaped(merge.line.text, 80));
    const auto left = add_piece(merge.left, where), right = add_piece(merge.right, where);
    vocabulary_.add_merge(left, right,
                          {.rank = static_cast<std::uint32_t>(merge.line.number),
                           .id = add_piece(merge.left + merge.right, where)});
  }
  // Throws if the list is truncated: too many pieces then remain that no merge makes.
  void require_whole() const {
    constexpr std::size_t kMaxUnmade = 64;  // some lists have placeholders
    std::size_t unmade = 0;
    for (std::size_t id = 0; id < vocabulary_.pieces.size(); ++id) {
      const auto& piece = vocabulary_.pieces[id];
      const bool is_special = piece.starts_with('<') || piece.starts_with('[');
      unmade += vocabulary_.kinds[id] == PieceKind::control && !is_special && bytes_spelled(piece);
    }
    REQUIRE(unmade <= kMaxUnmade, ExitCode::bad_data,
            "tokenizer {}: no line makes {} of the pieces in {} beside it (expected lines for all "
            "but special ones); the list is cut short or of another tokenizer: copy both again",
            path_, unmade, published_.path);
  }
  const std::string& path_;
  const PublishedIds& published_;
  BpeVocabulary vocabulary_;
  std::unordered_map<std::string, TokenId> ids_;
};

}  // namespace

bool is_merge_list(std::string_view bytes, std::string_view path) {
  return bytes.starts_with(version_mark) || path.ends_with("vocab.bpe") ||
         path.ends_with("merges.txt");
}

BpeVocabulary read_merge_list(std::string_view bytes, const std::string& path) {
  if (const auto published = find_published_ids(path))
    return PublishedList(bytes, path, *published).take();
  return read_own_list(bytes, path);
}

}  // namespace tg
