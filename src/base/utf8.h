#pragma once
// UTF-8 that may be broken or incomplete. Overlong forms and surrogates are not UTF-8.
#include <cstddef>
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

}  // namespace tg
