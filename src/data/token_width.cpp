#include "data/token_width.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace tg {
namespace {

struct Halves {
  std::size_t numbers = 0;
  std::size_t small_high = 0, zero_high = 0;  // upper halves
  std::size_t small_low = 0, zero_low = 0;    // lower halves
};

// Reads pairs of `bytes` bytes as numbers of twice the width. A high half is small if it is below
// 16, which covers ids up to 2 ^ 20, or if it is all ones, as for small negative numbers.
Halves count_halves(std::span<const std::byte> stored, std::size_t bytes) {
  Halves halves{.numbers = stored.size() / (2 * bytes)};
  const auto number_at = [&](std::size_t at) {
    std::uint64_t number = 0;
    std::memcpy(&number, stored.data() + at, bytes);
    return number;
  };
  const std::uint64_t ones = ~std::uint64_t{0} >> (64 - 8 * bytes);
  for (std::size_t i = 0; i < halves.numbers; ++i) {
    const auto low = number_at(2 * i * bytes), high = number_at((2 * i + 1) * bytes);
    halves.small_low += low < 16;
    halves.zero_low += low == 0;
    halves.small_high += high < 16 || high == ones;
    halves.zero_high += high == 0;
  }
  return halves;
}

bool are_halves(std::span<const std::byte> stored, std::size_t bytes) {
  constexpr std::size_t kFewest = 8;
  const auto halves = count_halves(stored, bytes);
  if (halves.numbers < kFewest || halves.small_high < halves.numbers) return false;
  const bool all_zero = halves.zero_high == halves.numbers;
  return all_zero ? 2 * halves.zero_low < halves.numbers : 2 * halves.small_low < halves.numbers;
}

}  // namespace

std::optional<IntegerType> integer_type_named(std::string_view dtype) {
  if (dtype == "uint16") return IntegerType{.bytes = 2, .is_signed = false};
  if (dtype == "uint32") return IntegerType{.bytes = 4, .is_signed = false};
  if (dtype == "int64") return IntegerType{.bytes = 8, .is_signed = true};
  return {};
}

std::optional<int> wider_ids(std::span<const std::byte> stored, int bytes) {
  const auto width = static_cast<std::size_t>(bytes);
  if (width == 8) return {};
  if (are_halves(stored, 4)) return 8;
  if (width == 2 && are_halves(stored, 2)) return 4;
  return {};
}

}  // namespace tg
