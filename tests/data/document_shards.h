#pragma once
// Shards of documents, for tests of the orders that search for documents.
#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "data/shard.h"
#include "tests/data/shards.h"

namespace tg::test {

using Tokens = std::vector<std::uint16_t>;

inline constexpr std::uint16_t kBos = 1;

// Writes shards with these tokens.
struct Shards {
  explicit Shards(std::vector<Tokens> contents) : tokens(std::move(contents)) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      write_file(path(i), shard_bytes(tokens[i]));
    }
    set = std::make_unique<ShardSet>(dir.path(), "train", 65536);
  }
  std::string path(std::size_t i) const { return dir / fmt::format("fineweb_train_{:06}.bin", i); }
  TempDir dir;
  std::vector<Tokens> tokens;
  std::unique_ptr<ShardSet> set;
};

// Documents of 1 to 30 tokens, cut at random places, so that a shard may begin inside one. Tokens
// other than BOS encode their position.
inline std::vector<Tokens> documents(const std::vector<int>& sizes) {
  std::mt19937 random(5);
  std::vector<Tokens> shards;
  std::uint16_t next = 2;
  auto left = random() % 30;
  for (const int size : sizes) {
    Tokens& shard = shards.emplace_back();
    for (int i = 0; i < size; ++i, ++next) {
      shard.push_back(left == 0 ? kBos : next);
      left = left == 0 ? random() % 30 : left - 1;
    }
  }
  return shards;
}

}  // namespace tg::test
