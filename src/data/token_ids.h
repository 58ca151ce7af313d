#pragma once
// Conversion of token ids in files, which may be other integers than the uint16 used here.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

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

// Converts out.size() stored integers, which may be the bytes of `out` itself. `limit` is at most
// 65,536. Returns the first id that is not in [0, limit).
std::optional<BadId> convert_ids(std::span<const std::byte> stored, IntegerType type,
                                 std::int64_t limit, std::span<std::uint16_t> out);

}  // namespace tg
