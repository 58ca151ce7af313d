#pragma once
// Shards with chosen contents.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/files/testing.h"

namespace tg::test {

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <typename Id>
std::string shard_bytes(const std::vector<Id>& tokens, std::int32_t magic = 20240520,
                        std::int32_t version = 1) {
  std::array<std::int32_t, 256> header{};
  header[0] = magic;
  header[1] = version;
  header[2] = static_cast<std::int32_t>(tokens.size());
  return std::string(reinterpret_cast<const char*>(header.data()), sizeof(header)) +
         bytes_of(tokens);
}

// Returns n tokens first, first + 1, …
inline std::vector<std::uint16_t> counting(int n, int first = 0) {
  std::vector<std::uint16_t> tokens;
  for (int i = 0; i < n; ++i) tokens.push_back(static_cast<std::uint16_t>(first + i));
  return tokens;
}

}  // namespace tg::test
