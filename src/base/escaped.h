#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace tg {

// Text of anybody as a terminal may show it: what a terminal would obey or reorder (control
// characters, those of C1 and of text direction too) and bytes that are no UTF-8 are escaped, as
// \x1b or \u202e. Escaping twice changes nothing more.

// As one line, of about `most` bytes at most.
std::string escaped(std::string_view text, std::size_t most = 100);
// The whole; its line ends and tabs stay.
std::string escaped_lines(std::string_view text);

}  // namespace tg
