#pragma once
#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

namespace tg {

// Returns the first line of `text`: a LibTorch message without its backtrace.
inline std::string_view first_line(std::string_view text) {
  return text.substr(0, text.find('\n'));
}

// Returns `text` with every `part`, which is not empty, replaced by `with`.
inline std::string replaced(std::string_view text, std::string_view part, std::string_view with) {
  std::string result;
  std::size_t begin = 0;
  for (auto at = text.find(part); at != std::string_view::npos; at = text.find(part, begin)) {
    result.append(text, begin, at - begin).append(with);
    begin = at + part.size();
  }
  return result.append(text, begin);
}

// Returns the number that all of `text` is, without a plus sign or white space; nullopt: it is none
// or too large. `base`: of an integer, 10 if not given.
template <class Number>
std::optional<Number> parse_number(std::string_view text, auto... base) {
  Number number{};
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, base...);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

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
