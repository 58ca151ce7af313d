#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace tg {

// → the index of the first `id`; their number, if there is none.
std::size_t find_token(std::span<const std::uint16_t> tokens, std::uint16_t id);

}  // namespace tg
