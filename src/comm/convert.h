#pragma once
// Between c10d's types and ours.
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tg {

inline std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

inline std::vector<std::uint8_t> bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}

inline std::string text_of(const std::vector<std::uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

// LibTorch's messages go on with a backtrace.
inline std::string_view first_line(std::string_view text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace tg
