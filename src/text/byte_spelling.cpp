#include "text/byte_spelling.h"

#include "base/utf8.h"

namespace tg {
namespace {

bool is_printed_as_itself(unsigned byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

struct ByteSpelling {
  std::array<int, 256 + 68> byte_of{};  // by code point; -1: none
  std::array<std::size_t, 256> point_of{};
  std::array<std::uint8_t, 256> by_id{};  // the byte with the id

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

  std::optional<std::string> bytes_of(std::string_view spelled) const {
    std::string bytes;
    while (!spelled.empty()) {
      std::size_t point = static_cast<unsigned char>(spelled.front());
      spelled.remove_prefix(1);
      if (point >= 0x80) {  // all spelled characters have one or two bytes in UTF-8
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

}  // namespace

std::string spelled(std::string_view bytes) {
  return byte_spelling().spelled(bytes);
}

std::optional<std::string> bytes_spelled(std::string_view spelled) {
  return byte_spelling().bytes_of(spelled);
}

const std::array<std::uint8_t, 256>& bytes_in_order() {
  return byte_spelling().by_id;
}

}  // namespace tg
