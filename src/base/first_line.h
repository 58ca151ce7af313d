#pragma once
#include <string_view>

namespace tg {

// A message of LibTorch without the backtrace below its first line.
inline std::string_view first_line(std::string_view text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace tg
