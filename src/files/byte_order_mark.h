#pragma once
#include <string_view>

namespace tg {

inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// A file's text without the UTF-8 byte order mark that it may begin with.
inline std::string_view without_byte_order_mark(std::string_view text) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return text;
}

}  // namespace tg
