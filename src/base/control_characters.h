#pragma once
#include <algorithm>
#include <string_view>

namespace tg {

// Control characters other than white space and the escape that begins terminal colours.
inline bool is_control_character(char byte) {
  const bool spaces = byte >= '\t' && byte <= '\r';
  return byte >= 0 && byte < ' ' && !spaces && byte != '\x1b';
}

// Returns whether more than one byte in fifty is a control character. In random bytes a tenth are,
// in text of any single-byte encoding none, and in UTF-16 and UTF-32 nearly every space and line
// end has one.
inline bool has_control_characters(std::string_view sample) {
  const auto controls =
      static_cast<std::size_t>(std::ranges::count_if(sample, is_control_character));
  return 50 * controls > sample.size();
}

}  // namespace tg
