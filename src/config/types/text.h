#pragma once
// Conversion of a setting's value to text and back, and the text forms of its name.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "config/types/choices.h"
#include "config/types/limits.h"
#include "config/types/schedule.h"
#include "config/types/values.h"

namespace tg {

std::string env_name(std::string_view member);   // matrix_lr -> MATRIX_LR
std::string flag_name(std::string_view member);  // matrix_lr -> matrix-lr
std::string_view trimmed(std::string_view text);

// Text from which read_value reads the same value.
std::string value_text(std::int64_t value);
std::string value_text(double value);
std::string value_text(bool value);
std::string value_text(const std::string& value);
std::string value_text(const Every& value);
std::string value_text(const Fp8Parts& value);
template <class T>
std::string value_text(const std::vector<T>& values) {
  return fmt::format("{}", fmt::join(values, ","));
}
template <class T>
std::string value_text(const Schedule<T>& value);
template <class T>
std::string value_text(const OrAuto<T>& value) {
  return value.automatic ? "auto" : value_text(value.value);
}
template <ChoiceEnum E>
std::string value_text(E value) {
  return std::string(choice_name(value));
}

// Returns false and leaves `value` unchanged if the text is not such a value.
bool read_value(std::string_view text, std::int64_t& value);
bool read_value(std::string_view text, double& value);
bool read_value(std::string_view text, bool& value);
bool read_value(std::string_view text, std::string& value);
bool read_value(std::string_view text, Every& value);
bool read_value(std::string_view text, Fp8Parts& value);
bool read_value(std::string_view text, std::vector<std::int64_t>& values);
bool read_value(std::string_view text, std::vector<std::string>& values);
template <class T>
bool read_value(std::string_view text, Schedule<T>& value);
template <class T>
bool read_value(std::string_view text, OrAuto<T>& value) {
  OrAuto<T> read{.automatic = trimmed(text) == "auto"};
  if (!read.automatic && !read_value(text, read.value)) return false;
  value = std::move(read);
  return true;
}
template <ChoiceEnum E>
bool read_value(std::string_view text, E& value) {
  constexpr auto names = Choices::of(E{});
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (trimmed(text) == names[i]) {
      value = static_cast<E>(i);
      return true;
    }
  }
  return false;
}

std::string limit_text(const Limit& limit);  // " of at least 1", " above 0", " in [0, 1)"

// Returns the words that a setting of type T takes; none for types without a list of words.
template <class T>
std::vector<std::string_view> words_of_type() {
  if constexpr (std::is_same_v<T, bool>) {
    return {"0", "1", "true", "false"};
  } else if constexpr (std::is_enum_v<T>) {
    constexpr auto words = Choices::of(T{});
    return {words.begin(), words.end()};
  } else {
    return {};
  }
}

// Describes the values that a setting of type T takes: "an integer of at least 1", "auto|cuda|cpu".
template <class T>
std::string expected_text(const Limit& limit) {
  constexpr const char* begins =
      "the others each with the share of the run (below 1) or the step from which it counts ";
  if constexpr (std::is_same_v<T, std::int64_t>) {
    return "an integer" + limit_text(limit);
  } else if constexpr (std::is_same_v<T, double>) {
    return "a number" + limit_text(limit);
  } else if constexpr (std::is_same_v<T, bool> || std::is_enum_v<T>) {
    return fmt::format("{}", fmt::join(words_of_type<T>(), "|"));
  } else if constexpr (std::is_same_v<T, Every>) {
    return "a number of steps, or of minutes with m (100, 5m)";
  } else if constexpr (requires { T::automatic; }) {
    return "auto or " + expected_text<decltype(T::value)>(limit);
  } else if constexpr (std::is_same_v<T, CountSchedule>) {
    return fmt::format("an integer{}, or several, {}(1024,2048@0.5)", limit_text(limit), begins);
  } else if constexpr (std::is_same_v<T, NumberSchedule>) {
    return fmt::format("a number{}, or several, {}(1,1.5@0.5)", limit_text(limit), begins);
  } else if constexpr (std::is_same_v<T, RampSchedule>) {
    return fmt::format(
        "numbers{} with / between them, a:b for one that changes from a to b; or several such "
        "lists, {}(1/0.5:0,1@0.5)",
        limit_text(limit), begins);
  } else if constexpr (std::is_same_v<T, Fp8Parts>) {
    return "0, 1, or some of mlp, qkv, out and head with commas between them";
  } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
    return fmt::format("integers{} with commas between them", limit_text(limit));
  } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    return "words with commas between them";
  } else {
    return "text";
  }
}

// Returns whether a value's numbers are within the limits; true for types without numbers.
template <class T>
bool is_allowed(const T& value, const Limit& limit) {
  const auto each_is_allowed = [&](const auto& one) { return is_allowed(one, limit); };
  if constexpr (std::is_same_v<T, std::int64_t> || std::is_same_v<T, double>) {
    return limit.allows(static_cast<double>(value));
  } else if constexpr (std::is_same_v<T, Every>) {
    return is_allowed(value.count, limit);
  } else if constexpr (std::is_same_v<T, Ramp>) {
    return limit.allows(value.from) && limit.allows(value.to);
  } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>> || std::is_same_v<T, Ramps>) {
    return std::ranges::all_of(value, each_is_allowed);
  } else if constexpr (requires { value.automatic; }) {
    return value.automatic || is_allowed(value.value, limit);
  } else if constexpr (requires { value.stages(); }) {
    return std::ranges::all_of(value.stages(), each_is_allowed, &T::Stage::value);
  } else {
    return true;
  }
}

}  // namespace tg
