#include "data/ids.h"

#include <algorithm>
#include <limits>

namespace tg {

// Compares blocks of constant length, which compiles to vector instructions; a loop over single
// tokens would be slower than reading them.
template <class Id>
std::size_t find_token(std::span<const Id> tokens, TokenId id) {
  if (id > std::numeric_limits<Id>::max()) return tokens.size();
  const auto wanted = static_cast<Id>(id);
  constexpr std::ptrdiff_t block = 128;
  const auto* first = tokens.data();
  const auto* const last = first + tokens.size();
  while (last - first >= block) {
    Id found = 0;
    for (std::ptrdiff_t i = 0; i < block; ++i) found |= static_cast<Id>(first[i] == wanted);
    if (found != 0) break;
    first += block;
  }
  return static_cast<std::size_t>(std::find(first, last, wanted) - tokens.data());
}

template std::size_t find_token(std::span<const NarrowId> tokens, TokenId id);
template std::size_t find_token(std::span<const TokenId> tokens, TokenId id);

}  // namespace tg
