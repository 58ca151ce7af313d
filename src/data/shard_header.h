#pragma once
// The header of a shard: 256 little-endian int32, of which the first three are magic, version and
// the number n of tokens. n ids follow, in as many bits as magic and version say.
#include <cstdint>

#include "files/file.h"

namespace tg {

// Our own shards, with uint16 ids; llm.c writes the same for GPT-2's vocabulary.
inline constexpr std::int32_t shard_magic = 20240520;
inline constexpr std::int32_t shard_version = 1;
// llm.c's shards of Llama 3's vocabulary, with uint32 ids.
inline constexpr std::int32_t wide_shard_magic = 20240801;
inline constexpr std::int32_t wide_shard_version = 7;
inline constexpr std::int64_t shard_header_ints = 256;
inline constexpr std::int64_t shard_header_bytes = 4 * shard_header_ints;

struct ShardHeader {
  std::int64_t tokens = 0;
  int token_bytes = 2;
};

// Whether a file begins as a shard does, in either byte order. Errors: io.
bool begins_as_shard(const File& file);
// Also checks the file's size. Errors: bad_data (cut short, other magic or version, no tokens,
// another size), io.
ShardHeader read_shard_header(const File& file);

}  // namespace tg
