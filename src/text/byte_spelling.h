#pragma once
// GPT-2's spelling of bytes as characters, as its published files have it: printable ones of
// Latin-1 are themselves, the others U+0100, U+0101, … in order.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tg {

// In UTF-8.
std::string spelled(std::string_view bytes);
// The bytes that are spelled so; nothing where a character spells none.
std::optional<std::string> bytes_spelled(std::string_view spelled);
// All 256 in the order of that spelling, which GPT-2's ids follow.
const std::array<std::uint8_t, 256>& bytes_in_order();

}  // namespace tg
