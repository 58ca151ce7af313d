#pragma once
// Shards with chosen contents.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "data/ids.h"
#include "tests/files/testing.h"

namespace tg::test {

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <typename Id>
std::string shard_bytes(const std::vector<Id>& tokens,
                        std::int32_t magic = sizeof(Id) == 2 ? 20240520 : 20240801,
                        std::int32_t version = sizeof(Id) == 2 ? 1 : 7) {
  std::array<std::int32_t, 256> header{};
  header[0] = magic;
  header[1] = version;
  header[2] = static_cast<std::int32_t>(tokens.size());
  return std::string(reinterpret_cast<const char*>(header.data()), sizeof(header)) +
         bytes_of(tokens);
}

// Returns ids, which have 32 bits as tokenized and as read from a batch, in the 16 bits of a shard.
inline std::vector<NarrowId> narrow(const std::vector<TokenId>& ids) {
  std::vector<NarrowId> narrowed;
  for (const auto id : ids) narrowed.push_back(static_cast<NarrowId>(id));
  return narrowed;
}
template <class View>
std::vector<TokenId> listed(const View& ids) {
  return std::visit([](auto view) { return std::vector<TokenId>(view.begin(), view.end()); }, ids);
}

// Returns n tokens first, first + 1, …
inline std::vector<std::uint16_t> counting(int n, int first = 0) {
  std::vector<std::uint16_t> tokens;
  for (int i = 0; i < n; ++i) tokens.push_back(static_cast<std::uint16_t>(first + i));
  return tokens;
}

}  // namespace tg::test
