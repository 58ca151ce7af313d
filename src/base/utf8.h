#pragma once
// UTF-8 that may be broken or incomplete. Overlong forms and surrogates are not UTF-8.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tg {

// The character at the start of `text`, at most 4 bytes; empty if there is none.
std::string_view first_utf8_character(std::string_view text);

// Bytes of `text` before the first that is not UTF-8.
std::size_t valid_utf8_prefix(std::string_view text);

// Whether more bytes can make `text`, at least one byte, one character.
bool begins_utf8_character(std::string_view text);

// Removes from the front of `bytes` all that is decided and returns it as UTF-8: U+FFFD for each
// byte that is none. What stays begins a character whose other bytes may follow.
std::string take_utf8(std::string& bytes);

// All of `bytes`, with U+FFFD for each that is not UTF-8.
std::string as_utf8(std::string bytes);

// Whether the byte is none that begins a character.
inline bool continues_utf8_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

// The characters of `text`, which is UTF-8.
std::int64_t count_utf8_characters(std::string_view text);

void append_utf8(std::string& text, char32_t character);

}  // namespace tg
