#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace tg {

// Text of a file in a message: control characters escaped, so that it stays one line and moves no
// cursor; at most `most` characters.
std::string shown(std::string_view text, std::size_t most = 100);

}  // namespace tg
