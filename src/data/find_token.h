#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace tg {

// Returns the index of the first `id`; tokens.size() if there is none.
std::size_t find_token(std::span<const std::uint16_t> tokens, std::uint16_t id);

}  // namespace tg
