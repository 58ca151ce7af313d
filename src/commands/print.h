#pragma once
#include <string_view>

namespace tg {

// Writes all of `text` to standard output, at once. Errors: io.
void print_text(std::string_view text);

}  // namespace tg
