#include "data/find_token.h"

#include <algorithm>

namespace tg {

// Compares blocks of constant length, which compiles to vector instructions; a loop over single
// tokens would be slower than reading them.
std::size_t find_token(std::span<const std::uint16_t> tokens, std::uint16_t id) {
  constexpr std::ptrdiff_t block = 128;
  const auto* first = tokens.data();
  const auto* const last = first + tokens.size();
  while (last - first >= block) {
    std::uint16_t found = 0;
    for (std::ptrdiff_t i = 0; i < block; ++i) found |= static_cast<std::uint16_t>(first[i] == id);
    if (found != 0) break;
    first += block;
  }
  return static_cast<std::size_t>(std::find(first, last, id) - tokens.data());
}

}  // namespace tg
