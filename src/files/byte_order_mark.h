#pragma once
#include <string_view>

namespace tg {

inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Returns a file's text without a leading UTF-8 byte order mark.
inline std::string_view without_byte_order_mark(std::string_view text) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return text;
}

}  // namespace tg
