#pragma once
#include <string_view>

namespace tg {

// Returns the first line of `text`: a LibTorch message without its backtrace.
inline std::string_view first_line(std::string_view text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace tg
