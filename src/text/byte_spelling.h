#pragma once
// GPT-2's spelling of bytes as characters in its published files: printable Latin-1 characters
// stand for themselves, the other bytes are U+0100, U+0101, … in order.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tg {

// Returns the spelling of the bytes, in UTF-8.
std::string spelled(std::string_view bytes);
// Returns the bytes that `spelled` stands for; nullopt if a character stands for none.
std::optional<std::string> bytes_spelled(std::string_view spelled);
// All 256 bytes in the order of that spelling, which GPT-2's ids follow.
const std::array<std::uint8_t, 256>& bytes_in_order();

}  // namespace tg
