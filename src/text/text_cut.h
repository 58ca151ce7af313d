#pragma once
#include <cctype>
#include <cstddef>
#include <string_view>

namespace tg {

// Returns whether text[at] is a space between two ASCII letters or digits, where Tokenizer::split()
// cuts long texts.
inline bool is_space_between_words(std::string_view text, std::size_t at) {
  const auto is_word = [](char c) { return c > 0 && std::isalnum(static_cast<unsigned char>(c)); };
  return at > 0 && at + 1 < text.size() && text[at] == ' ' && is_word(text[at - 1]) &&
         is_word(text[at + 1]);
}

}  // namespace tg
