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

}  // namespace tg
