#include <algorithm>
#include <filesystem>
#include <iterator>

#include "base/error.h"
#include "base/strings.h"
#include "text/bpe_vocabulary.h"

namespace tg {
namespace {

#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
// cl100k's, with the digits that are one word.
#define CL100K(digits) \
  CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"

constexpr struct {
  std::string_view name, pattern;
} kPatterns[] = {
    {"gpt2", "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"},
    {"cl100k", CL100K("\\p{N}{1,3}")},
    {"llama3", CL100K("\\p{N}{1,3}")},
    {"qwen2", CL100K("\\p{N}")},
    {"o200k",
     "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" CONTRACTION "?|[^\\r\\n\\p{L}\\p{N}]?" UPPER
     "+" LOWER "*" CONTRACTION "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES},
};

// Returns a TOKENIZER_PATTERN as a pattern in Oniguruma's syntax: a name (gpt2, cl100k, llama3,
// qwen2, o200k) stands for a pattern, any other text is one.
std::string word_pattern(std::string_view stated) {
  const auto* const known =
      std::ranges::find_if(kPatterns, [&](const auto& pattern) { return pattern.name == stated; });
  return std::string(known == std::end(kPatterns) ? stated : known->pattern);
}

constexpr std::size_t kGpt2Ranks = 50'256;

// Tables that are published with special pieces behind a gap, known by name and number of ranks.
struct KnownTable {
  std::string_view name;
  std::size_t ranks;
  std::string_view pattern;
  std::vector<std::pair<std::size_t, std::string_view>> special;
};

const KnownTable* known_table(const std::string& path, std::size_t ranks) {
  static const std::vector<KnownTable> tables = {
      {"cl100k_base",
       100'256,
       "cl100k",
       {{100'257, kEndOfText},
        {100'258, "<|fim_prefix|>"},
        {100'259, "<|fim_middle|>"},
        {100'260, "<|fim_suffix|>"},
        {100'276, "<|endofprompt|>"}}},
      {"o200k_base", 199'998, "o200k", {{199'999, kEndOfText}, {200'018, "<|endofprompt|>"}}}};
  const auto name = std::filesystem::path(path).filename().string();
  const auto found = std::ranges::find_if(tables, [&](const KnownTable& table) {
    return name.starts_with(table.name) && ranks == table.ranks;
  });
  return found == tables.end() ? nullptr : &*found;
}

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

struct Ranked {
  std::string piece;
  std::size_t rank;
};
std::optional<Ranked> parse_ranked(std::string_view line) {
  const auto space = line.find(' ');
  if (space == std::string_view::npos) return {};
  auto piece = decode_base64(line.substr(0, space));
  const auto digits = line.substr(space + 1);
  const auto rank = digits.size() < 10 ? parse_number<std::size_t>(digits) : std::nullopt;
  if (!piece || piece->empty() || !rank) return {};
  return Ranked{*std::move(piece), *rank};
}

BpeVocabulary read_pieces(std::string_view bytes, const std::string& path) {
  BpeBuilder builder(path);
  TextLines lines(bytes);
  while (const auto line = lines.next()) {
    const auto ranked = parse_ranked(line->text);
    if (!ranked) refuse_line(path, *line, "a piece in base64, a space and its rank");
    if (ranked->rank != builder.size())
      refuse_line(path, *line, fmt::format("rank {}, since ranks are ids", builder.size()));
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
      if (left && right) builder.add_merge(*left, *right, static_cast<TokenId>(id));
    }
  }
  return std::move(builder).finish();
}

}  // namespace

bool is_rank_table(std::string_view bytes, std::string_view path) {
  return path.ends_with(".tiktoken") || parse_ranked(bytes.substr(0, bytes.find('\n')));
}

BpeVocabulary read_rank_table(std::string_view bytes, const std::string& path,
                              const std::string& pattern) {
  auto vocabulary = read_pieces(bytes, path);
  const auto ranks = vocabulary.pieces.size();
  vocabulary.whole_words = true;
  const auto* const known = pattern.empty() ? known_table(path, ranks) : nullptr;
  REQUIRE(known != nullptr || !pattern.empty() || ranks == kGpt2Ranks, ExitCode::config,
          "tokenizer {}: a table of {} ranks does not say how text is split into words (expected "
          "GPT-2's of {}, cl100k_base.tiktoken, o200k_base.tiktoken, or a pattern); set "
          "TOKENIZER_PATTERN (make_shards --pattern) to gpt2, cl100k, llama3, qwen2, o200k or a "
          "regular expression, or copy the file again if it was cut short",
          path, ranks, kGpt2Ranks);
  if (known != nullptr || !pattern.empty()) {
    vocabulary.format = "bpe";
    vocabulary.pattern = word_pattern(known != nullptr ? known->pattern : pattern);
    const auto where = known != nullptr ? "tokenizer " + path : "TOKENIZER_PATTERN";
    vocabulary.pre_tokenizer = PreTokenizer({pcre2_pattern(vocabulary.pattern, where)}, where);
  }
  if (known == nullptr) {
    vocabulary.bos_id = add_special(vocabulary, ranks, kEndOfText);
    return vocabulary;
  }
  for (const auto& [id, name] : known->special) add_special(vocabulary, id, name);
  vocabulary.bos_id = beginning_of_documents(vocabulary);
  return vocabulary;
}

}  // namespace tg
