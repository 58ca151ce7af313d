// A folder of one shard: its header and size, and every token in both widths, read across the end.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <numeric>

#include "data/shard.h"
#include "tests/fuzz/target.h"

namespace tg::fuzz {

namespace {

template <class Id>
std::string shard() {
  std::array<Id, 40> tokens{};
  std::iota(tokens.begin(), tokens.end(), Id{1000});
  std::array<std::int32_t, shard_header_ints> header{};
  std::ranges::copy(shard_header_of(std::ssize(tokens), sizeof(Id)), header.begin());
  std::string bytes(sizeof header + sizeof tokens, '\0');
  std::memcpy(bytes.data(), header.data(), sizeof header);
  std::memcpy(bytes.data() + sizeof header, tokens.data(), sizeof tokens);
  return bytes;
}

// Reads all tokens and some of the next pass.
template <class Id>
void read_all(const std::string& folder, int vocab_size) {
  const ShardSet shards(folder, "train", vocab_size);
  std::vector<Id> tokens(static_cast<std::size_t>(shards.total_tokens()) + 7);
  shards.read_at(3, tokens);
}

}  // namespace

std::vector<std::string> seeds() {
  return {shard<NarrowId>(), shard<TokenId>()};
}

void read(std::string_view bytes) {
  static ScratchFile file("fineweb_train_000000.bin");
  file.put(bytes);
  read_all<TokenId>(file.folder(), kMaxPieces);
  read_all<NarrowId>(file.folder(), 1040);
}

}  // namespace tg::fuzz
