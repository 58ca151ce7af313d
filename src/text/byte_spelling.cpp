#include "text/byte_spelling.h"

#include <algorithm>
#include <numeric>

#include "base/utf8.h"

namespace tg {
namespace {

bool is_printed_as_itself(unsigned byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

// Spelling of each byte, and the reverse.
struct ByteSpelling {
  std::array<std::uint8_t, 256> by_id{};  // the byte with the id
  std::array<char32_t, 256> point_of{};
  std::array<int, 256 + 68> byte_of{};  // by code point; -1: none

  ByteSpelling() {
    std::iota(by_id.begin(), by_id.end(), std::uint8_t{0});
    std::ranges::stable_partition(by_id, is_printed_as_itself);
    byte_of.fill(-1);
    char32_t other = 256;
    for (const auto byte : by_id) {
      point_of[byte] = is_printed_as_itself(byte) ? byte : other++;
      byte_of[point_of[byte]] = byte;
    }
  }
};

const ByteSpelling& byte_spelling() {
  static const ByteSpelling spelling;
  return spelling;
}

}  // namespace

std::string spelled(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes)
    append_utf8(text, byte_spelling().point_of[static_cast<unsigned char>(byte)]);
  return text;
}

std::optional<std::string> bytes_spelled(std::string_view spelled) {
  const auto& byte_of = byte_spelling().byte_of;
  std::string bytes;
  while (!spelled.empty()) {
    const auto character = first_utf8_character(spelled);
    if (character.empty()) return {};
    const auto point = code_point(character);
    if (point >= byte_of.size() || byte_of[point] < 0) return {};
    bytes += static_cast<char>(byte_of[point]);
    spelled.remove_prefix(character.size());
  }
  return bytes;
}

const std::array<std::uint8_t, 256>& bytes_in_order() {
  return byte_spelling().by_id;
}

}  // namespace tg
