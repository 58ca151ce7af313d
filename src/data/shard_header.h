#pragma once
// Header of a shard: 256 little-endian int32, of which the first three are magic number, version
// and the number n of tokens. n ids follow, whose width depends on magic number and version.
#include <array>
#include <cstdint>

#include "files/file.h"

namespace tg {

inline constexpr std::int64_t shard_header_ints = 256;
inline constexpr std::int64_t shard_header_bytes = 4 * shard_header_ints;

struct ShardHeader {
  std::int64_t tokens = 0;
  int token_bytes = 2;
};

// Returns the numbers that begin a shard of n tokens of this width.
std::array<std::int32_t, 3> shard_header_of(std::int64_t tokens, int token_bytes);
// Returns whether a file begins like a shard, in either byte order. Throws Error(io).
bool begins_as_shard(const File& file);
// Reads the header and checks the file's size. Throws Error(bad_data) for a truncated file, another
// magic number or version, no tokens or another size, and Error(io).
ShardHeader read_shard_header(const File& file);

}  // namespace tg
