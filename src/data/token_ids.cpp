#include "data/token_ids.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
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

}  // namespace tg
