#pragma once
// Conversion of token ids in files, which may be other integers than those in memory.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/ids.h"

namespace tg {

// Little-endian integer type.
struct IntegerType {
  int bytes = 2;  // 1, 2, 4 or 8
  bool is_signed = false;
};

struct BadId {
  std::int64_t index = 0;
  std::string value;
};

// Converts as many stored integers as `out` has, which may be the bytes of `out` itself. `out`
// holds ids below `limit`. Returns the first id that is not in [0, limit).
std::optional<BadId> convert_ids(std::span<const std::byte> stored, IntegerType type,
                                 std::int64_t limit, const MutableIds& out);

// Returns the ids as they are stored in `id_bytes` bytes each, 2 or 4.
std::vector<std::byte> stored_ids(std::span<const TokenId> ids, int id_bytes);

// Returns the type that --dtype names: uint16, uint32 or int64; nullopt for other names.
std::optional<IntegerType> integer_type_named(std::string_view dtype);

// Detects ids wider than `bytes` (2 or 4) by the pattern of `stored`, and returns their width in
// bytes: ids of a language are distributed equally at even and odd positions, halves of wider
// numbers are not. Returns nullopt without such a pattern or with too few numbers.
std::optional<int> wider_ids(std::span<const std::byte> stored, int bytes);

}  // namespace tg
