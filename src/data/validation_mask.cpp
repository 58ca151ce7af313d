#include "data/validation_mask.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "base/error.h"
#include "base/escaped.h"
#include "base/log.h"
#include "base/strings.h"
#include "data/vocabulary.h"
#include "files/json_file.h"
#include "text/byte_level_bpe.h"
#include "text/noncanonical_pairs.h"
#include "text/word_boundary.h"

namespace tg {
namespace {

constexpr std::int64_t kMaxVocab = 1 << 17;  // a table of 2 GiB

std::vector<RankedPiece> pieces_of_tokenizer(const Settings& settings) {
  const auto& path = settings.data.tokenizer_path;
  constexpr auto kInstead =
      "set VALIDATION_MASK_VOCABULARY to its pieces, bytes in hexadecimal and ids, or "
      "VALIDATION_MASK=0";
  REQUIRE(!path.empty(), ExitCode::config,
          "VALIDATION_MASK=1 needs the vocabulary, but TOKENIZER_PATH is empty; set one of "
          "TOKENIZER_PATH and VALIDATION_MASK_VOCABULARY");
  const auto tokenizer = make_tokenizer(settings.data, static_cast<int>(settings.model.vocab_size));
  const auto* const bpe = dynamic_cast<const ByteLevelBpe*>(&tokenizer.model());
  REQUIRE(
      bpe != nullptr, ExitCode::config,
      "VALIDATION_MASK=1: tokenizer {} has no ranks of merges (expected a byte-level BPE, found "
      "{}); {}",
      path, tokenizer.format(), kInstead);
  REQUIRE(
      bpe->has_gpt2_words(), ExitCode::config,
      "VALIDATION_MASK=1: tokenizer {} splits text into words by a pattern of its own (expected "
      "GPT-2's, whose words the mask knows); set VALIDATION_MASK=0",
      path);
  return bpe->ranked_pieces();
}

// The mask knows a contraction by its piece alone.
void warn_of_contractions(const std::vector<RankedPiece>& pieces) {
  for (const auto contraction : kContractions) {
    if (std::ranges::find(pieces, contraction, &RankedPiece::bytes) != pieces.end()) continue;
    return log_warn_once(
        "VALIDATION_MASK=1: {} is no piece of the vocabulary (expected all contractions to be, as "
        "in GPT-2's): behind it the mask names tokens that the tokenizer writes, each of which "
        "costs 60 nats; compare val_loss_unmasked",
        contraction);
  }
}

constexpr std::uint64_t kMaxFileBytes = 64 << 20;
constexpr std::size_t kMaxPieceBytes = 1 << 10;  // GPT-2's largest piece has 128

std::optional<std::string> bytes_of_hex(std::string_view hex) {
  if (hex.empty() || hex.size() % 2 != 0 || hex.size() > 2 * kMaxPieceBytes) return {};
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    const auto byte = parse_number<std::uint8_t>(hex.substr(i, 2), 16);
    if (!byte) return {};
    bytes += static_cast<char>(*byte);
  }
  return bytes;
}

void require_every_byte(const std::string& path, const std::unordered_set<std::string>& pieces) {
  for (int byte = 0; byte < 256; ++byte) {
    REQUIRE(pieces.contains({static_cast<char>(byte)}), ExitCode::bad_data,
            "VALIDATION_MASK_VOCABULARY={}: the byte \"{:02x}\" is no piece (expected each of the "
            "256, found {} pieces); write all pieces of the tokenizer",
            path, byte, pieces.size());
  }
}

}  // namespace

std::vector<std::uint8_t> validation_mask(const Settings& settings) {
  const auto vocab_size = settings.model.vocab_size;
  REQUIRE(vocab_size <= kMaxVocab, ExitCode::config,
          "VALIDATION_MASK=1 takes a bit for each pair of tokens (expected VOCAB_SIZE up to {}, "
          "found {}); set VALIDATION_MASK=0",
          kMaxVocab, vocab_size);
  const auto& path = settings.run.validation_mask_vocabulary;
  const auto pieces =
      path.empty() ? pieces_of_tokenizer(settings) : read_hex_vocabulary(path, vocab_size);
  warn_of_contractions(pieces);
  return noncanonical_pairs(pieces, vocab_size);
}

std::vector<RankedPiece> read_hex_vocabulary(const std::string& path, std::int64_t vocab_size) {
  const auto json = read_json_file(path, kMaxFileBytes);
  REQUIRE(json.is_object(), ExitCode::bad_data,
          "VALIDATION_MASK_VOCABULARY={}: expected a JSON object {{\"bytes in hexadecimal\": id}}, "
          "found {}; write the tokenizer's pieces so",
          path, json.type_name());
  std::vector<RankedPiece> pieces;
  std::unordered_set<std::string> seen;
  std::vector<bool> used(static_cast<std::size_t>(vocab_size));
  for (const auto& [hex, id] : json.items()) {
    const auto refuse = [&](const std::string& expected, const std::string& found) {
      fail(ExitCode::bad_data,
           "VALIDATION_MASK_VOCABULARY={}: piece \"{}\": expected {}, found {}; write each of the "
           "tokenizer's pieces once, with its id",
           path, escaped(hex, 40), expected, found);
    };
    auto bytes = bytes_of_hex(hex);
    if (!bytes)
      refuse(fmt::format("1 to {} bytes in hexadecimal", kMaxPieceBytes),
             fmt::format("{} characters", hex.size()));
    if (!id.is_number_integer() || id < 0 || id >= vocab_size)
      refuse(fmt::format("an id below VOCAB_SIZE={}", vocab_size), escaped(id.dump(), 40));
    const auto number = id.get<TokenId>();
    if (!seen.insert(*bytes).second) refuse("other bytes than those before it", "them again");
    if (used[number]) refuse("an id of its own", fmt::format("{}, as before it", number));
    used[number] = true;
    pieces.push_back({.bytes = *std::move(bytes), .id = number, .rank = number});
  }
  require_every_byte(path, seen);
  return pieces;
}

}  // namespace tg
