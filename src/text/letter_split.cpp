#include "text/letter_split.h"

#include <algorithm>

#include "base/utf8.h"

namespace tg {
namespace {

struct Range {
  char32_t first, last;
};

// Neither white space nor characters that combine with the preceding one.
constexpr Range letters[] = {
    {0x21, 0x7e},      // ASCII
    {0x410, 0x44f},    // Cyrillic
    {0x5d0, 0x5ea},    // Hebrew
    {0x621, 0x64a},    // Arabic
    {0x915, 0x939},    // Devanagari's consonants
    {0xe01, 0xe2e},    // Thai consonants
    {0x3041, 0x3096},  // Hiragana
    {0x30a1, 0x30fa},  // Katakana
    {0x4e00, 0x9fff},  // Chinese characters
    {0xac00, 0xd7a3},  // Hangul syllables
};

// Returns whether `character` is exactly one of these letters in UTF-8.
bool is_letter(std::string_view character) {
  const auto byte = [&](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(character[i]));
  };
  if (!std::all_of(character.begin() + 1, character.end(), continues_utf8_character)) return false;
  char32_t code = 0;
  if (character.size() == 1 && byte(0) < 0x80) {
    code = byte(0);
  } else if (character.size() == 2 && byte(0) >> 5 == 0x6) {
    code = (byte(0) & 0x1f) << 6 | (byte(1) & 0x3f);
  } else if (character.size() == 3 && byte(0) >> 4 == 0xe) {
    code = (byte(0) & 0xf) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f);
  }
  return std::ranges::any_of(
      letters, [&](const Range& range) { return range.first <= code && code <= range.last; });
}

// Tests the character that ends before `at` and the one that begins there.
bool is_between_letters(std::string_view text, std::size_t at) {
  if (continues_utf8_character(text[at])) return false;
  std::size_t begin = at - 1, end = at + 1;
  while (begin > 0 && continues_utf8_character(text[begin])) --begin;
  while (end < text.size() && continues_utf8_character(text[end])) ++end;
  return is_letter(text.substr(begin, at - begin)) && is_letter(text.substr(at, end - at));
}

bool is_inside(std::string_view text, std::size_t at, std::string_view whole) {
  for (std::size_t before = 1; before < whole.size() && before <= at; ++before) {
    if (text.substr(at - before).starts_with(whole)) return true;
  }
  return false;
}

}  // namespace

std::vector<std::string_view> split_between_letters(std::string_view text, std::size_t size,
                                                    const std::vector<std::string>& whole) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  for (std::size_t at = size; at < text.size(); ++at) {
    const auto cuts = [&](const std::string& symbol) { return is_inside(text, at, symbol); };
    if (!is_between_letters(text, at) || std::ranges::any_of(whole, cuts)) continue;
    parts.push_back(text.substr(begin, at - begin));
    begin = at;
    at += size - 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

}  // namespace tg
