#pragma once
// Random numbers that a position determines, the same on every machine.
#include <cstdint>
#include <string_view>

namespace tg {

// Element `index` of the splitmix64 sequence that starts at `key`; no two elements are equal.
inline std::uint64_t splitmix64(std::uint64_t key, std::uint64_t index) {
  constexpr std::uint64_t golden_gamma = 0x9e3779b97f4a7c15;  // 2^64 over the golden ratio
  std::uint64_t bits = key + (index + 1) * golden_gamma;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return bits ^ (bits >> 31);
}

// The key of a sequence that is `name`'s own, such as a split's.
inline std::uint64_t key_of(std::uint64_t seed, std::string_view name) {
  std::uint64_t key = splitmix64(seed, 0);
  for (const char c : name) key = splitmix64(key, static_cast<unsigned char>(c));
  return key;
}

}  // namespace tg
