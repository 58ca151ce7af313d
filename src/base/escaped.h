#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace tg {

// Escapes untrusted text for a terminal: control characters (C0 and C1), line separators,
// bidirectional controls and invalid UTF-8 become \x1b or \u202e. Escaping twice changes nothing
// more.

// Returns one line, from about the first `max_bytes` bytes of `text`.
std::string escaped(std::string_view text, std::size_t max_bytes = 100);
// Escapes the whole text; line ends and tabs stay.
std::string escaped_lines(std::string_view text);

}  // namespace tg
