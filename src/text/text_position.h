#pragma once
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/utf8.h"

namespace tg {

// Position in a text, as editors count.
struct TextPosition {
  std::int64_t line = 1;
  std::int64_t column = 1;  // in characters

  // Advances to the end of `text`, which begins here.
  void advance(std::string_view text) {
    const auto last = text.rfind('\n');
    if (last != std::string_view::npos) {
      line += std::count(text.begin(), text.end(), '\n');
      column = 1;
      text.remove_prefix(last + 1);
    }
    column += count_utf8_characters(text);
  }
};

}  // namespace tg
