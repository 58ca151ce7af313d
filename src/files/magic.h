#pragma once
#include <cstddef>
#include <string_view>

namespace tg {

// Bytes that identify a file format, and their offset in the file.
struct Magic {
  std::string_view bytes;
  std::size_t at = 0;

  bool is_in(std::string_view head) const {
    return head.size() >= at && head.substr(at).starts_with(bytes);
  }
};

inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Returns a file's text without a leading UTF-8 byte order mark.
inline std::string_view without_byte_order_mark(std::string_view text) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return text;
}

}  // namespace tg
