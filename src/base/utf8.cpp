#include "base/utf8.h"

#include <algorithm>

namespace tg {
namespace {

// Returns the length of the well-formed character at the start of `text`, which is not empty; 0 if
// there is none (Unicode, table 3-7).
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) -> unsigned {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto follows = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xbf) {
    return byte(i) >= low && byte(i) <= high;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const unsigned low = first == 0xe0 ? 0xa0 : 0x80;
    const unsigned high = first == 0xed ? 0x9f : 0xbf;
    return follows(1, low, high) && follows(2) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const unsigned low = first == 0xf0 ? 0x90 : 0x80;
    const unsigned high = first == 0xf4 ? 0x8f : 0xbf;
    return follows(1, low, high) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::string_view first_utf8_character(std::string_view text) {
  return text.substr(0, character_length(text));
}

char32_t code_point(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0);
  char32_t code = byte(0) & (0x7fU >> character.size());
  for (std::size_t i = 1; i < character.size(); ++i) code = code << 6 | (byte(i) & 0x3fU);
  return code;
}

std::size_t valid_utf8_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t length = character_length(text.substr(at));
    if (length == 0) break;
    at += length;
  }
  return at;
}

bool begins_utf8_character(std::string_view text) {
  constexpr std::size_t kMaxBytes = 4;
  if (text.size() >= kMaxBytes) return false;
  const auto first = static_cast<unsigned char>(text.front());
  if (text.size() == 1) return first >= 0xc2 && first <= 0xf4;
  // Only the second byte's range depends on the first.
  std::string filled(text);
  filled.resize(kMaxBytes, '\x80');
  return character_length(filled) > text.size();
}

std::string take_utf8(std::string& bytes) {
  std::string text;
  std::string_view rest = bytes;
  while (true) {
    const auto valid = valid_utf8_prefix(rest);
    text += rest.substr(0, valid);
    rest.remove_prefix(valid);
    if (rest.empty() || begins_utf8_character(rest)) break;
    text += "\uFFFD";
    rest.remove_prefix(1);
  }
  bytes.erase(0, bytes.size() - rest.size());
  return text;
}

std::string as_utf8(std::string bytes) {
  auto text = take_utf8(bytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) text += "\uFFFD";  // an incomplete last character
  return text;
}

std::int64_t count_utf8_characters(std::string_view text) {
  return std::ranges::count_if(text, [](char byte) { return !continues_utf8_character(byte); });
}

void append_utf8(std::string& text, char32_t character) {
  const auto continuation = [&](unsigned shift) {
    text += static_cast<char>(0x80 | (character >> shift & 0x3f));
  };
  if (character < 0x80) {
    text += static_cast<char>(character);
  } else if (character < 0x800) {
    text += static_cast<char>(0xc0 | character >> 6);
    continuation(0);
  } else if (character < 0x10000) {
    text += static_cast<char>(0xe0 | character >> 12);
    continuation(6);
    continuation(0);
  } else {
    text += static_cast<char>(0xf0 | character >> 18);
    continuation(12);
    continuation(6);
    continuation(0);
  }
}

}  // namespace tg
