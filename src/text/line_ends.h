#pragma once
// Ends of lines: \n, \r\n or \r.
#include <cstddef>
#include <string_view>

namespace tg {

// Line ends one behind the other, text[begin, end): one ends a line, more are empty lines.
struct LineEnds {
  std::size_t begin = 0, end = 0;
  int count = 0;
};

// The first of at least two from `from` on; else those that the text ends with, which may go on in
// what follows it, begin == end == text.size() where it ends with none.
LineEnds find_empty_lines(std::string_view text, std::size_t from);

}  // namespace tg
