#include "text/hex_vocabulary.h"

#include <charconv>
#include <optional>
#include <unordered_set>

#include "base/error.h"
#include "base/escaped.h"
#include "files/json_file.h"

namespace tg {
namespace {

constexpr std::uint64_t kMaxFileBytes = 64 << 20;
constexpr std::size_t kMaxPieceBytes = 1 << 10;  // GPT-2's largest piece has 128

std::optional<std::string> bytes_of_hex(std::string_view hex) {
  if (hex.empty() || hex.size() % 2 != 0 || hex.size() > 2 * kMaxPieceBytes) return {};
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    std::uint8_t byte = 0;
    const auto* const begin = hex.data() + i;
    if (std::from_chars(begin, begin + 2, byte, 16).ptr != begin + 2) return {};
    bytes += static_cast<char>(byte);
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
