#include "text/wide_encoding.h"

#include <bitset>
#include <cstdint>

#include "base/control_characters.h"

namespace tg {
namespace {

enum class Order : std::uint8_t { little, big };

std::uint32_t unit_at(std::string_view text, std::size_t at, std::size_t bytes, Order order) {
  std::uint32_t unit = 0;
  for (std::size_t i = 0; i < bytes; ++i) {
    const auto byte =
        static_cast<unsigned char>(text[at + (order == Order::big ? i : bytes - 1 - i)]);
    unit = unit << 8 | byte;
  }
  return unit;
}

bool is_surrogate(std::uint32_t unit) {
  return unit >= 0xd800 && unit < 0xe000;
}
bool is_high_surrogate(std::uint32_t unit) {
  return unit >= 0xd800 && unit < 0xdc00;
}
bool is_text(std::uint32_t point) {
  const bool is_control = point < 0x80 && is_control_character(static_cast<char>(point));
  const bool is_none = (point & 0xfffe) == 0xfffe || (point >= 0xfdd0 && point < 0xfdf0);
  return !is_control && !is_none;
}

// Of the planes that have characters, none of which two units of UTF-16 with a line end are.
bool is_utf32(std::string_view text, Order order) {
  for (std::size_t at = 0; at + 4 <= text.size(); at += 4) {
    const auto point = unit_at(text, at, 4, order);
    const auto plane = point >> 16;
    if ((plane > 3 && plane != 14) || is_surrogate(point) || !is_text(point)) return false;
  }
  return text.size() >= 4;
}

// Characters of a text have fewer upper halves than lower ones: a script is a range or a few.
bool has_few_upper_halves(std::string_view text, Order order) {
  std::bitset<256> upper, lower;
  for (std::size_t at = 0; at + 2 <= text.size(); at += 2) {
    const auto unit = unit_at(text, at, 2, order);
    upper.set(unit >> 8);
    lower.set(unit & 0xff);
  }
  return 4 * upper.count() <= 3 * lower.count();
}

bool is_utf16(std::string_view text, Order order) {
  for (std::size_t at = 0; at + 2 <= text.size(); at += 2) {
    const auto unit = unit_at(text, at, 2, order);
    if (!is_surrogate(unit)) {
      if (!is_text(unit)) return false;
      continue;
    }
    if (!is_high_surrogate(unit)) return false;
    if (at + 4 > text.size()) break;  // its partner is behind the sample
    const auto low = unit_at(text, at += 2, 2, order);
    if (!is_surrogate(low) || is_high_surrogate(low)) return false;
  }
  return text.size() >= 2 && has_few_upper_halves(text, order);
}

}  // namespace

std::string_view wide_encoding(std::string_view sample) {
  sample = sample.substr(0, kEncodingSample);
  if (!has_control_characters(sample)) return {};
  if (is_utf32(sample, Order::little)) return "UTF-32LE";
  if (is_utf32(sample, Order::big)) return "UTF-32BE";
  if (is_utf16(sample, Order::little)) return "UTF-16LE";
  if (is_utf16(sample, Order::big)) return "UTF-16BE";
  return {};
}

}  // namespace tg
