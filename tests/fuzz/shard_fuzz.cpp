// A folder of one shard: its header and size, and every token, read across the end.
#include <array>
#include <cstdint>
#include <cstring>
#include <numeric>

#include "data/shard.h"
#include "tests/fuzz/target.h"

namespace tg::fuzz {

std::vector<std::string> seeds() {
  std::array<std::int32_t, shard_header_ints> header{shard_magic, shard_version, 40};
  std::array<std::uint16_t, 40> tokens{};
  std::iota(tokens.begin(), tokens.end(), std::uint16_t{1000});
  std::string bytes(sizeof header + sizeof tokens, '\0');
  std::memcpy(bytes.data(), header.data(), sizeof header);
  std::memcpy(bytes.data() + sizeof header, tokens.data(), sizeof tokens);
  return {bytes};
}

void read(std::string_view bytes) {
  static ScratchFile file("fineweb_train_000000.bin");
  file.put(bytes);
  const ShardSet shards(file.folder(), "train", 1040);
  std::vector<std::uint16_t> tokens(static_cast<std::size_t>(shards.total_tokens()) + 7);
  shards.read_at(3, tokens);
}

}  // namespace tg::fuzz
