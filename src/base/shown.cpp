#include "base/shown.h"

#include <fmt/format.h>

namespace tg {

std::string shown(std::string_view text, std::size_t most) {
  std::string out;
  for (char c : text.substr(0, most)) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return text.size() > most ? out + "..." : out;
}

}  // namespace tg
