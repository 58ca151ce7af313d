#include "data/token_ids.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <limits>
#include <type_traits>

namespace tg {
namespace {

template <typename T, typename Id>
std::optional<BadId> convert(const std::byte* stored, std::int64_t limit, std::span<Id> out) {
  // Sign-extended negative ids exceed every limit.
  using Unsigned = std::conditional_t<std::is_signed_v<T> && sizeof(T) < 4, std::uint32_t,
                                      std::make_unsigned_t<T>>;
  const auto* const ids = reinterpret_cast<const T*>(stored);
  const auto below = static_cast<std::uint64_t>(limit);
  // Computing the maximum vectorizes; the bad id is searched only if there is one.
  Unsigned largest = 0;
  for (std::size_t i = 0; i < out.size(); ++i)
    largest = std::max(largest, static_cast<Unsigned>(ids[i]));
  if (largest >= below) {
    std::size_t bad = 0;
    while (static_cast<Unsigned>(ids[bad]) < below) ++bad;
    return BadId{static_cast<std::int64_t>(bad), fmt::format("{}", ids[bad])};
  }
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<Id>(ids[i]);
  return {};
}

template <typename Id>
std::optional<BadId> convert_from(std::span<const std::byte> stored, IntegerType type,
                                  std::int64_t limit, std::span<Id> out) {
  assert(limit <= std::int64_t{std::numeric_limits<Id>::max()} + 1);
  assert(stored.size() == out.size() * static_cast<std::size_t>(type.bytes));
  const auto convert_as = [&]<class Signed>(Signed) {
    return type.is_signed ? convert<Signed>(stored.data(), limit, out)
                          : convert<std::make_unsigned_t<Signed>>(stored.data(), limit, out);
  };
  switch (type.bytes) {
    case 1:
      return convert_as(std::int8_t{});
    case 2:
      return convert_as(std::int16_t{});
    case 4:
      return convert_as(std::int32_t{});
    default:
      assert(type.bytes == 8);
      return convert_as(std::int64_t{});
  }
}

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

std::optional<BadId> convert_ids(std::span<const std::byte> stored, IntegerType type,
                                 std::int64_t limit, const MutableIds& out) {
  return std::visit([&](auto ids) { return convert_from(stored, type, limit, ids); }, out);
}

std::vector<std::byte> stored_ids(std::span<const TokenId> ids, int id_bytes) {
  std::vector<std::byte> stored(ids.size() * static_cast<std::size_t>(id_bytes));
  const auto store = [&]<class Id>(std::span<Id> out) {
    std::ranges::transform(ids, out.begin(), [](TokenId id) { return static_cast<Id>(id); });
  };
  std::visit(store, ids_at(stored.data(), std::ssize(ids), id_bytes));
  return stored;
}

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
