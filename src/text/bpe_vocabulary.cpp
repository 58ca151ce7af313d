#include "text/bpe_vocabulary.h"

#include <array>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/escaped.h"
#include "base/utf8.h"
#include "text/text_lines.h"

namespace tg {
namespace {

constexpr std::string_view version_mark = "#version";
constexpr std::size_t most_pieces = 1 << 16;    // ids are stored as uint16
constexpr std::size_t largest_piece = 1 << 10;  // bytes; GPT-2's largest has 128
constexpr const char* end_of_text = "<|endoftext|>";

using IdOfPiece = std::unordered_map<std::string, std::uint16_t>;

bool is_printed_as_itself(unsigned byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

// GPT-2's spelling of bytes as characters: printable ones of Latin-1 are themselves, the others
// U+0100, U+0101, … in order. Ids follow that spelling's order.
struct ByteSpelling {
  std::array<int, 256 + 68> byte_of{};  // by code point; -1: none
  std::array<std::size_t, 256> point_of{};
  std::array<std::uint8_t, 256> by_id{};  // byte of the id

  ByteSpelling() {
    byte_of.fill(-1);
    std::size_t id = 0, other = 256;
    for (unsigned byte = 0; byte < 256; ++byte) {
      if (!is_printed_as_itself(byte)) continue;
      byte_of[byte] = static_cast<int>(byte);
      point_of[byte] = byte;
      by_id[id++] = static_cast<std::uint8_t>(byte);
    }
    for (unsigned byte = 0; byte < 256; ++byte) {
      if (is_printed_as_itself(byte)) continue;
      point_of[byte] = other;
      byte_of[other++] = static_cast<int>(byte);
      by_id[id++] = static_cast<std::uint8_t>(byte);
    }
  }

  // The bytes of a spelled piece; nothing where a character spells none.
  std::optional<std::string> bytes_of(std::string_view spelled) const {
    std::string bytes;
    while (!spelled.empty()) {
      std::size_t point = static_cast<unsigned char>(spelled.front());
      spelled.remove_prefix(1);
      if (point >= 0x80) {  // all are of one or two bytes in UTF-8
        if (point < 0xc2 || point > 0xdf || spelled.empty()) return {};
        const unsigned next = static_cast<unsigned char>(spelled.front());
        if ((next & 0xc0) != 0x80) return {};
        spelled.remove_prefix(1);
        point = (point & 0x1f) << 6 | (next & 0x3f);
      }
      if (point >= byte_of.size() || byte_of[point] < 0) return {};
      bytes += static_cast<char>(byte_of[point]);
    }
    return bytes;
  }
  std::string spelled(std::string_view bytes) const {
    std::string text;
    for (const char byte : bytes)
      append_utf8(text, static_cast<char32_t>(point_of[static_cast<unsigned char>(byte)]));
    return text;
  }
};

const ByteSpelling& byte_spelling() {
  static const ByteSpelling spelling;
  return spelling;
}

// Bytes of base64 with padding; nothing for other text.
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

// Adds pieces under the next id, and says what is wrong with a line.
class Builder {
 public:
  explicit Builder(const std::string& path) : path_(path) {}

  std::uint16_t add(const std::string& piece, std::int64_t line) {
    // <|endoftext|> takes the last id.
    REQUIRE(vocabulary_.pieces.size() + 1 < most_pieces, ExitCode::config,
            "tokenizer {} line {} is too much for 16-bit token ids (at most {} pieces)", path_,
            line, most_pieces);
    REQUIRE(piece.size() <= largest_piece, ExitCode::bad_data,
            "tokenizer {} line {} makes a piece of {} bytes (expected at most {}); copy the file "
            "again",
            path_, line, piece.size(), largest_piece);
    const auto id = static_cast<std::uint16_t>(vocabulary_.pieces.size());
    REQUIRE(ids_.emplace(piece, id).second, ExitCode::bad_data,
            "tokenizer {} line {} makes a piece that is there already, id {} (expected each piece "
            "once); copy the file again",
            path_, line, ids_.at(piece));
    vocabulary_.pieces.push_back(piece);
    return id;
  }
  void add_merge(std::uint16_t left, std::uint16_t right, std::uint16_t id) {
    vocabulary_.merges.emplace(std::uint32_t{left} << 16 | right, id);
  }
  std::optional<std::uint16_t> find(const std::string& piece) const {
    const auto found = ids_.find(piece);
    if (found == ids_.end()) return {};
    return found->second;
  }
  std::size_t size() const { return vocabulary_.pieces.size(); }
  const std::string& piece(std::size_t id) const { return vocabulary_.pieces[id]; }

  [[noreturn]] void refuse(const TextLine& line, const char* expected) const {
    fail(ExitCode::bad_data, "tokenizer {} line {}: expected {}, found \"{}\"; copy the file again",
         path_, line.number, expected, escaped(line.text));
  }
  BpeVocabulary finish() {
    vocabulary_.pieces.emplace_back(end_of_text);
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

BpeVocabulary read_merge_list(std::string_view bytes, const std::string& path) {
  const auto& spelling = byte_spelling();
  constexpr const char* kExpected = "two pieces that earlier lines make, with a space between them";
  Builder builder(path);
  for (const auto byte : spelling.by_id) builder.add({static_cast<char>(byte)}, 0);
  TextLines lines(bytes);
  const auto first = lines.next();
  if (!first || !first->text.starts_with(version_mark)) {
    builder.refuse(first.value_or(TextLine{.text = "", .number = 1}), "\"#version: 0.2\"");
  }
  while (const auto line = lines.next()) {
    const auto space = line->text.find(' ');
    if (space == std::string_view::npos) builder.refuse(*line, kExpected);
    const auto left = spelling.bytes_of(line->text.substr(0, space));
    const auto right = spelling.bytes_of(line->text.substr(space + 1));
    if (!left || !right) builder.refuse(*line, kExpected);
    const auto left_id = builder.find(*left), right_id = builder.find(*right);
    if (!left_id || !right_id) builder.refuse(*line, kExpected);
    builder.add_merge(*left_id, *right_id, builder.add(*left + *right, line->number));
  }
  return builder.finish();
}

bool is_rank_table(std::string_view bytes, std::string_view path) {
  return path.ends_with(".tiktoken") || parse_ranked(bytes.substr(0, bytes.find('\n')));
}

BpeVocabulary read_rank_table(std::string_view bytes, const std::string& path) {
  Builder builder(path);
  TextLines lines(bytes);
  while (const auto line = lines.next()) {
    const auto ranked = parse_ranked(line->text);
    if (!ranked) builder.refuse(*line, "a piece in base64, a space and its rank");
    if (ranked->rank != builder.size()) {
      builder.refuse(*line, fmt::format("rank {}, since ranks are ids", builder.size()).c_str());
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

std::string spelled(std::string_view piece) {
  return byte_spelling().spelled(piece);
}

std::optional<BpeVocabulary> read_bpe_vocabulary(std::string_view bytes, const std::string& path) {
  if (is_merge_list(bytes, path)) return read_merge_list(bytes, path);
  if (is_rank_table(bytes, path)) return read_rank_table(bytes, path);
  return {};
}

}  // namespace tg
