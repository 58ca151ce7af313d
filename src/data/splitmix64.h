#pragma once
// Counter-based random numbers, reproducible on every machine.
#include <cstdint>
#include <string_view>

namespace tg {

// Returns element `index` of the splitmix64 sequence that starts at `key`; no two elements are
// equal.
inline std::uint64_t splitmix64(std::uint64_t key, std::uint64_t index) {
  constexpr std::uint64_t golden_gamma = 0x9e3779b97f4a7c15;  // 2^64 over the golden ratio
  std::uint64_t bits = key + (index + 1) * golden_gamma;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return bits ^ (bits >> 31);
}

// Returns the key of a separate sequence for `name`, such as a split.
inline std::uint64_t key_of(std::uint64_t seed, std::string_view name) {
  std::uint64_t key = splitmix64(seed, 0);
  for (const char c : name) key = splitmix64(key, static_cast<unsigned char>(c));
  return key;
}

}  // namespace tg
