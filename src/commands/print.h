#pragma once
#include <string_view>

namespace tg {

// Writes all of `text` to standard output, at once; escaped_lines() of it to a terminal, since
// names and text of files may hold anything. Errors: io.
void print_text(std::string_view text);
// Prints text unchanged, control sequences included, to a terminal.
void print_screen(std::string_view text);

}  // namespace tg
