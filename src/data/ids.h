#pragma once
// Token ids in memory, on the way from a source to a batch: 16 bits each where all are below 65,536
// (narrow), else 32 bits. A view carries its width; what runs per token is a template that
// std::visit calls once per view.
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "text/token_id.h"

namespace tg {

using NarrowId = std::uint16_t;
inline constexpr std::int64_t kNarrowIds = 1 << 16;

// Returns the bytes of an id below `limit` in memory: 2 or 4.
constexpr int id_bytes_below(std::int64_t limit) {
  return limit <= kNarrowIds ? int{sizeof(NarrowId)} : int{sizeof(TokenId)};
}

using Ids = std::variant<std::span<const NarrowId>, std::span<const TokenId>>;
using MutableIds = std::variant<std::span<NarrowId>, std::span<TokenId>>;

// Views `memory`, which is aligned for ids of this width.
inline MutableIds ids_at(std::byte* memory, std::int64_t count, int id_bytes) {
  const auto size = static_cast<std::size_t>(count);
  if (id_bytes == sizeof(NarrowId)) return std::span(reinterpret_cast<NarrowId*>(memory), size);
  return std::span(reinterpret_cast<TokenId*>(memory), size);
}
inline Ids ids_at(const std::byte* memory, std::int64_t count, int id_bytes) {
  const auto size = static_cast<std::size_t>(count);
  if (id_bytes == sizeof(NarrowId))
    return std::span(reinterpret_cast<const NarrowId*>(memory), size);
  return std::span(reinterpret_cast<const TokenId*>(memory), size);
}

// Returns the index of the first `id`; tokens.size() if there is none.
template <class Id>
std::size_t find_token(std::span<const Id> tokens, TokenId id);

extern template std::size_t find_token(std::span<const NarrowId> tokens, TokenId id);
extern template std::size_t find_token(std::span<const TokenId> tokens, TokenId id);

}  // namespace tg
