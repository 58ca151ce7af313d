#pragma once
// Schema of the events in metrics.jsonl: an event's kEvent has the name, and its `visit` calls a
// visitor with each field: name, value, rule and the text in docs/metrics.md. Writers, readers and
// documentation follow it.
#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace tg {

struct EventName {
  const char* name;
  const char* when;  // when it is emitted
};

enum class Unit { none, steps, tokens, parameters, ms, bytes, nats, bits_per_byte, flops, flop_s };
constexpr std::string_view unit_text(Unit unit) {
  constexpr std::string_view texts[] = {"",      "steps", "tokens",    "parameters", "ms",
                                        "bytes", "nats",  "bits/byte", "FLOP",       "FLOP/s"};
  return texts[static_cast<std::size_t>(unit)];
}

struct FieldRule {
  constexpr FieldRule(Unit field_unit, bool is_required = false)
      : unit(field_unit), required(is_required) {}

  Unit unit;
  bool required;  // readers reject an event without it
};
constexpr FieldRule required(Unit unit = Unit::none) {
  return {unit, true};
}

// JSON types of fields; a non-finite number is null.
enum class FieldType { count, number, text, counts_by_name };
using CountsByName = std::map<std::string, std::uint64_t>;

template <class T>
struct TypeOf;
template <std::integral T>
requires(!std::same_as<T, bool>) struct TypeOf<T>
    : std::integral_constant<FieldType, FieldType::count> {
};
template <std::floating_point T>
struct TypeOf<T> : std::integral_constant<FieldType, FieldType::number> {};
template <std::convertible_to<std::string_view> T>
struct TypeOf<T> : std::integral_constant<FieldType, FieldType::text> {};
template <>
struct TypeOf<CountsByName> : std::integral_constant<FieldType, FieldType::counts_by_name> {};
// The field is absent if the optional is empty.
template <class T>
struct TypeOf<std::optional<T>> : TypeOf<T> {};

// Returns nothing for 0 or "", which mean none.
template <class T>
std::optional<T> if_any(const T& value) {
  return value == T{} ? std::nullopt : std::optional(value);
}

struct AnyVisitor {
  void operator()(const char* name, const auto& value, FieldRule rule, const char* doc) const;
};
// An event: a struct with a schema.
template <class T>
concept EventType = requires(const T& event) {
  { T::kEvent } -> std::convertible_to<EventName>;
  event.visit(AnyVisitor{});
};

}  // namespace tg
