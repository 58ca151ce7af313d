#include "base/escaped.h"

#include <fmt/format.h>

#include "base/utf8.h"

namespace tg {
namespace {

bool within(char32_t code, char32_t first, char32_t last) {
  return code >= first && code <= last;
}

bool is_unsafe(char32_t code) {
  const bool control = code < 0x20 || within(code, 0x7f, 0x9f);
  const bool line_end = within(code, 0x2028, 0x2029);
  const bool direction = code == 0x61c || within(code, 0x200e, 0x200f) ||
                         within(code, 0x202a, 0x202e) || within(code, 0x2066, 0x2069);
  return control || line_end || direction;
}

// Appends the first character of `text`, which is not empty, and returns its length in bytes.
std::size_t append_first(std::string& out, std::string_view text) {
  const auto character = first_utf8_character(text);
  if (character.empty()) {
    out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    return 1;
  }
  const auto code = code_point(character);
  if (!is_unsafe(code)) {
    out += character;
  } else if (code < 0x80) {
    out += fmt::format("\\x{:02x}", static_cast<unsigned>(code));
  } else {
    out += fmt::format("\\u{:04x}", static_cast<unsigned>(code));
  }
  return character.size();
}

}  // namespace

std::string escaped(std::string_view text, std::size_t max_bytes) {
  std::string out;
  std::size_t at = 0;
  while (at < text.size() && at < max_bytes) at += append_first(out, text.substr(at));
  return at < text.size() ? out + "..." : out;
}

std::string escaped_lines(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const bool stays = text[at] == '\n' || text[at] == '\t';
    if (stays) out += text[at];
    at += stays ? 1 : append_first(out, text.substr(at));
  }
  return out;
}

}  // namespace tg
