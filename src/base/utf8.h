#pragma once
// Handles UTF-8 that may be invalid or incomplete. Overlong forms and surrogates are invalid.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tg {

// Returns the character at the start of `text`, at most 4 bytes; empty if there is none.
std::string_view first_utf8_character(std::string_view text);

// Returns the code point of a character that is UTF-8.
char32_t code_point(std::string_view character);

// Returns the number of bytes of `text` before the first invalid one.
std::size_t valid_utf8_prefix(std::string_view text);

// Returns whether further bytes can complete `text`, at least one byte, to one character.
bool begins_utf8_character(std::string_view text);

// Removes from the front of `bytes` all that is complete and returns it as UTF-8, with U+FFFD for
// each invalid byte. The bytes that stay begin a character whose other bytes may follow.
std::string take_utf8(std::string& bytes);

// Returns `bytes` with U+FFFD for each byte that is not UTF-8.
std::string as_utf8(std::string bytes);

// Returns whether the byte continues a character (10xxxxxx).
inline bool continues_utf8_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

// Return whether the code unit is the first, or the second, of a pair in UTF-16.
constexpr bool is_high_surrogate(std::uint32_t unit) {
  return unit >= 0xd800 && unit < 0xdc00;
}
constexpr bool is_low_surrogate(std::uint32_t unit) {
  return unit >= 0xdc00 && unit < 0xe000;
}

// Returns the number of characters of `text`, which is UTF-8.
std::int64_t count_utf8_characters(std::string_view text);

void append_utf8(std::string& text, char32_t character);

}  // namespace tg
