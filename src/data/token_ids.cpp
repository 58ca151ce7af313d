#include "data/token_ids.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <type_traits>

namespace tg {
namespace {

template <typename T>
std::optional<BadId> convert(const std::byte* stored, std::int64_t limit,
                             std::span<std::uint16_t> out) {
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
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::uint16_t>(ids[i]);
  return {};
}

}  // namespace

std::optional<BadId> convert_ids(std::span<const std::byte> stored, IntegerType type,
                                 std::int64_t limit, std::span<std::uint16_t> out) {
  assert(stored.size() == out.size() * static_cast<std::size_t>(type.bytes));
  const auto* const bytes = stored.data();
  switch (type.bytes) {
    case 1:
      return type.is_signed ? convert<std::int8_t>(bytes, limit, out)
                            : convert<std::uint8_t>(bytes, limit, out);
    case 2:
      return type.is_signed ? convert<std::int16_t>(bytes, limit, out)
                            : convert<std::uint16_t>(bytes, limit, out);
    case 4:
      return type.is_signed ? convert<std::int32_t>(bytes, limit, out)
                            : convert<std::uint32_t>(bytes, limit, out);
    default:
      assert(type.bytes == 8);
      return type.is_signed ? convert<std::int64_t>(bytes, limit, out)
                            : convert<std::uint64_t>(bytes, limit, out);
  }
}

}  // namespace tg
