#pragma once
#include <cstddef>
#include <span>

#include "data/ids.h"

namespace tg {

// Returns the index of the first `id`; tokens.size() if there is none.
template <class Id>
std::size_t find_token(std::span<const Id> tokens, TokenId id);

extern template std::size_t find_token(std::span<const NarrowId> tokens, TokenId id);
extern template std::size_t find_token(std::span<const TokenId> tokens, TokenId id);

}  // namespace tg
