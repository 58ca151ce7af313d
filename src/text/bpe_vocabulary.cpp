#include "text/bpe_vocabulary.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/escaped.h"
#include "text/byte_spelling.h"
#include "text/published_ids.h"
#include "text/text_lines.h"

namespace tg {
namespace {

constexpr std::string_view version_mark = "#version";
constexpr std::size_t max_pieces = 1 << 16;       // ids are stored as uint16
constexpr std::size_t max_piece_bytes = 1 << 10;  // bytes; GPT-2's largest has 128
constexpr const char* end_of_text = "<|endoftext|>";
// Pieces that begin a document; the first one that the vocabulary has is used.
constexpr std::string_view kBeginnings[] = {
    end_of_text, "<|begin_of_text|>", "<|startoftext|>", "<|bos|>", "<s>", "<bos>", "[BOS]"};

using IdOfPiece = std::unordered_map<std::string, std::uint16_t>;

// Decodes padded base64; returns nullopt for other text.
std::optional<std::string> decode_base64(std::string_view text) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.empty() || text.size() % 4 != 0) return {};
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  text.remove_suffix(padding);
  std::string bytes;
  unsigned bits = 0, count = 0;
  for (const char c : text) {
    const auto value = digits.find(c);
    if (value == std::string_view::npos) return {};
    bits = (bits << 6 | static_cast<unsigned>(value)) & 0xffff;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xff);
  }
  return bytes;
}

std::optional<std::size_t> parse_rank(std::string_view text) {
  if (text.empty() || text.size() > 9) return {};
  std::size_t rank = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return {};
    rank = 10 * rank + static_cast<std::size_t>(c - '0');
  }
  return rank;
}

struct Ranked {
  std::string piece;
  std::size_t rank;
};
std::optional<Ranked> parse_ranked(std::string_view line) {
  const auto space = line.find(' ');
  if (space == std::string_view::npos) return {};
  auto piece = decode_base64(line.substr(0, space));
  const auto rank = parse_rank(line.substr(space + 1));
  if (!piece || piece->empty() || !rank) return {};
  return Ranked{*std::move(piece), *rank};
}

[[noreturn]] void refuse(const std::string& path, const TextLine& line, const char* expected) {
  fail(ExitCode::bad_data, "tokenizer {} line {}: expected {}, found \"{}\"; copy the file again",
       path, line.number, expected, escaped(line.text));
}

// Adds pieces with consecutive ids, and throws for a line whose piece is invalid.
class Builder {
 public:
  explicit Builder(const std::string& path) : path_(path) {}

  std::uint16_t add(const std::string& piece, std::int64_t line) {
    // One id is reserved for <|endoftext|>.
    REQUIRE(vocabulary_.pieces.size() + 1 < max_pieces, ExitCode::config,
            "tokenizer {} line {} is too much for 16-bit token ids (at most {} pieces)", path_,
            line, max_pieces);
    REQUIRE(piece.size() <= max_piece_bytes, ExitCode::bad_data,
            "tokenizer {} line {} makes a piece of {} bytes (expected at most {}); copy the file "
            "again",
            path_, line, piece.size(), max_piece_bytes);
    const auto id = static_cast<std::uint16_t>(vocabulary_.pieces.size());
    REQUIRE(ids_.emplace(piece, id).second, ExitCode::bad_data,
            "tokenizer {} line {} makes a piece that is there already, id {} (expected each piece "
            "once); copy the file again",
            path_, line, ids_.at(piece));
    vocabulary_.pieces.push_back(piece);
    return id;
  }
  // The id is the rank: merges that make the same piece have equal rank.
  void add_merge(std::uint16_t left, std::uint16_t right, std::uint16_t id) {
    vocabulary_.merges.emplace(BpeVocabulary::pair(left, right),
                               BpeVocabulary::Merge{.rank = id, .id = id});
  }
  std::optional<std::uint16_t> find(const std::string& piece) const {
    const auto found = ids_.find(piece);
    if (found == ids_.end()) return {};
    return found->second;
  }
  std::size_t size() const { return vocabulary_.pieces.size(); }
  const std::string& piece(std::size_t id) const { return vocabulary_.pieces[id]; }

  BpeVocabulary finish() {
    vocabulary_.kinds.assign(vocabulary_.pieces.size(), PieceKind::normal);
    vocabulary_.bos_id = static_cast<int>(vocabulary_.pieces.size());
    vocabulary_.pieces.emplace_back(end_of_text);
    vocabulary_.kinds.push_back(PieceKind::control);
    return std::move(vocabulary_);
  }

 private:
  const std::string& path_;
  BpeVocabulary vocabulary_;
  IdOfPiece ids_;
};

bool is_merge_list(std::string_view bytes, std::string_view path) {
  return bytes.starts_with(version_mark) || path.ends_with("vocab.bpe") ||
         path.ends_with("merges.txt");
}

// Parser of the lines of a merge list after "#version: 0.2".
class MergeLines {
 public:
  MergeLines(std::string_view bytes, const std::string& path) : path_(path), lines_(bytes) {
    const auto first = lines_.next();
    if (!first || !first->text.starts_with(version_mark))
      refuse(path_, first.value_or(TextLine{.text = "", .number = 1}), "\"#version: 0.2\"");
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
    refuse(path_, line, "two pieces that earlier lines make, with a space between them");
  }

 private:
  const std::string& path_;
  TextLines lines_;
};

BpeVocabulary read_merge_list(std::string_view bytes, const std::string& path) {
  Builder builder(path);
  for (const auto byte : bytes_in_order()) builder.add({static_cast<char>(byte)}, 0);
  MergeLines lines(bytes, path);
  while (const auto merge = lines.next()) {
    const auto left = builder.find(merge->left), right = builder.find(merge->right);
    if (!left || !right) lines.refuse_merge(merge->line);
    builder.add_merge(*left, *right, builder.add(merge->left + merge->right, merge->line.number));
  }
  return builder.finish();
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
        ids_.emplace(*piece, static_cast<std::uint16_t>(id));
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
  std::uint16_t add_piece(const std::string& piece, const std::string& what) {
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
    vocabulary_.merges.emplace(
        BpeVocabulary::pair(left, right),
        BpeVocabulary::Merge{.rank = static_cast<std::uint32_t>(merge.line.number),
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
  IdOfPiece ids_;
};

bool is_rank_table(std::string_view bytes, std::string_view path) {
  return path.ends_with(".tiktoken") || parse_ranked(bytes.substr(0, bytes.find('\n')));
}

BpeVocabulary read_rank_table(std::string_view bytes, const std::string& path) {
  Builder builder(path);
  TextLines lines(bytes);
  while (const auto line = lines.next()) {
    const auto ranked = parse_ranked(line->text);
    if (!ranked) refuse(path, *line, "a piece in base64, a space and its rank");
    if (ranked->rank != builder.size()) {
      refuse(path, *line, fmt::format("rank {}, since ranks are ids", builder.size()).c_str());
    }
    builder.add(ranked->piece, line->number);
  }
  for (int byte = 0; byte < 256; ++byte) {
    REQUIRE(builder.find({static_cast<char>(byte)}), ExitCode::bad_data,
            "tokenizer {}: the byte 0x{:02x} is no piece (expected each of the 256); copy the file "
            "again",
            path, byte);
  }
  for (std::size_t id = 0; id < builder.size(); ++id) {
    const auto& piece = builder.piece(id);
    for (std::size_t cut = 1; cut < piece.size(); ++cut) {
      const auto left = builder.find(piece.substr(0, cut)), right = builder.find(piece.substr(cut));
      if (left && right) builder.add_merge(*left, *right, static_cast<std::uint16_t>(id));
    }
  }
  auto vocabulary = builder.finish();
  vocabulary.whole_words = true;
  return vocabulary;
}

}  // namespace

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

std::optional<BpeVocabulary> read_bpe_vocabulary(std::string_view bytes, const std::string& path) {
  if (is_merge_list(bytes, path)) {
    if (const auto published = find_published_ids(path))
      return PublishedList(bytes, path, *published).take();
    return read_merge_list(bytes, path);
  }
  if (is_rank_table(bytes, path)) return read_rank_table(bytes, path);
  return {};
}

}  // namespace tg
