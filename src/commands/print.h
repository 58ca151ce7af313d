#pragma once
#include <string_view>

namespace tg {

// Writes `text` to standard output and flushes; to a terminal, writes escaped_lines(text), since
// names and text of files may contain control sequences. Throws Error(io).
void print_text(std::string_view text);
// Writes `text` unchanged, control sequences included, and flushes. Throws Error(io).
void print_screen(std::string_view text);

}  // namespace tg
