#include "text/line_ends.h"

#include <algorithm>

namespace tg {
namespace {

// Two searches for one byte each are faster than one for two bytes.
std::size_t find_line_end(std::string_view text, std::size_t from) {
  const auto feed = std::min(text.find('\n', from), text.size());
  return std::min(text.substr(0, feed).find('\r', from), feed);
}

LineEnds line_ends_at(std::string_view text, std::size_t begin) {
  LineEnds ends{.begin = begin, .end = begin, .count = 0};
  while (ends.end < text.size() && (text[ends.end] == '\n' || text[ends.end] == '\r')) {
    ends.end += text.substr(ends.end).starts_with("\r\n") ? 2 : 1;
    ++ends.count;
  }
  return ends;
}

}  // namespace

LineEnds find_empty_lines(std::string_view text, std::size_t from) {
  while (true) {
    const auto ends = line_ends_at(text, find_line_end(text, from));
    if (ends.count > 1 || ends.end == text.size()) return ends;
    from = ends.end;
  }
}

}  // namespace tg
