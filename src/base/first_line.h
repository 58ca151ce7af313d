#pragma once
#include <string_view>

namespace tg {

// LibTorch's messages go on with a backtrace.
inline std::string_view first_line(std::string_view text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace tg
