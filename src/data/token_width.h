#pragma once
// The width of raw token ids, which nothing in their file tells.
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "data/token_ids.h"

namespace tg {

// The type that --dtype names: uint16, uint32 or int64; nothing: another name.
std::optional<IntegerType> integer_type_named(std::string_view dtype);

// The bytes of an id that the pattern of `stored` shows, where they are more than `bytes` (2 or 4):
// ids of a language have the same distribution at even and odd places, halves of wider numbers have
// not. Nothing: no sign of that, or too few numbers to tell.
std::optional<int> wider_ids(std::span<const std::byte> stored, int bytes);

}  // namespace tg
