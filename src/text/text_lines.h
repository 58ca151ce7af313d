#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/utf8.h"
#include "files/magic.h"

namespace tg {

struct TextLine {
  std::string_view text;  // without the line end, \n or \r\n
  std::int64_t number;    // from 1
};

// Iterates over the lines of a text without its byte order mark; a final line end begins no further
// line.
class TextLines {
 public:
  explicit TextLines(std::string_view text) : rest_(without_byte_order_mark(text)) {}

  std::optional<TextLine> next() {
    if (rest_.empty()) return {};
    const auto end = rest_.find('\n');
    auto line = rest_.substr(0, end);
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    return TextLine{.text = line, .number = ++number_};
  }

 private:
  std::string_view rest_;
  std::int64_t number_ = 0;
};

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
