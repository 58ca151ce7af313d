#pragma once
// Width of raw token ids, which their file does not declare.
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "data/token_ids.h"

namespace tg {

// Returns the type that --dtype names: uint16, uint32 or int64; nullopt for other names.
std::optional<IntegerType> integer_type_named(std::string_view dtype);

// Detects ids wider than `bytes` (2 or 4) by the pattern of `stored`, and returns their width in
// bytes: ids of a language are distributed equally at even and odd positions, halves of wider
// numbers are not. Returns nullopt without such a pattern or with too few numbers.
std::optional<int> wider_ids(std::span<const std::byte> stored, int bytes);

}  // namespace tg
