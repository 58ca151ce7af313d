#pragma once
// Conversion of a setting's value to text and back, and the text forms of its name.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "config/types/auto.h"
#include "config/types/choices.h"
#include "config/types/fp8_parts.h"
#include "config/types/limits.h"
#include "config/types/schedule.h"

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
std::string value_text(const CountOrAuto& value);
std::string value_text(const NumberOrAuto& value);
std::string value_text(const CountScheduleOrAuto& value);
std::string value_text(const Fp8Parts& value);
std::string value_text(const std::vector<std::int64_t>& values);
std::string value_text(const std::vector<std::string>& values);
template <class T>
std::string value_text(const Schedule<T>& value);
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
bool read_value(std::string_view text, CountOrAuto& value);
bool read_value(std::string_view text, NumberOrAuto& value);
bool read_value(std::string_view text, CountScheduleOrAuto& value);
bool read_value(std::string_view text, Fp8Parts& value);
bool read_value(std::string_view text, std::vector<std::int64_t>& values);
bool read_value(std::string_view text, std::vector<std::string>& values);
template <class T>
bool read_value(std::string_view text, Schedule<T>& value);
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
  if constexpr (std::is_same_v<T, std::int64_t>) {
    return "an integer" + limit_text(limit);
  } else if constexpr (std::is_same_v<T, double>) {
    return "a number" + limit_text(limit);
  } else if constexpr (std::is_same_v<T, bool> || std::is_enum_v<T>) {
    return fmt::format("{}", fmt::join(words_of_type<T>(), "|"));
  } else if constexpr (std::is_same_v<T, Every>) {
    return "a number of steps, or of minutes with m (100, 5m)";
  } else if constexpr (std::is_same_v<T, CountOrAuto>) {
    return "auto or an integer" + limit_text(limit);
  } else if constexpr (std::is_same_v<T, NumberOrAuto>) {
    return "auto or a number" + limit_text(limit);
  } else if constexpr (std::is_same_v<T, CountSchedule>) {
    return "an integer" + limit_text(limit) +
           ", or several, the others each with the share of the run (below 1) or the step from "
           "which it counts (1024,2048@0.5)";
  } else if constexpr (std::is_same_v<T, CountScheduleOrAuto>) {
    return "auto or " + expected_text<CountSchedule>(limit);
  } else if constexpr (std::is_same_v<T, NumberSchedule>) {
    return "a number" + limit_text(limit) +
           ", or several, the others each with the share of the run (below 1) or the step from "
           "which it counts (1,1.5@0.5)";
  } else if constexpr (std::is_same_v<T, RampSchedule>) {
    return "numbers" + limit_text(limit) +
           " with / between them, a:b for one that changes from a to b; or several such lists, the "
           "others each with the share of the run (below 1) or the step from which it counts "
           "(1/0.5:0,1@0.5)";
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

// Returns whether a number is within its limits; true for other types.
template <class T>
bool is_allowed(const T& value, const Limit& limit) {
  if constexpr (std::is_same_v<T, std::int64_t> || std::is_same_v<T, double>) {
    return limit.allows(static_cast<double>(value));
  } else if constexpr (std::is_same_v<T, Every>) {
    return limit.allows(static_cast<double>(value.count));
  } else if constexpr (std::is_same_v<T, CountOrAuto>) {
    return value.automatic || limit.allows(static_cast<double>(value.count));
  } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
    return std::ranges::all_of(
        value, [&](std::int64_t count) { return limit.allows(static_cast<double>(count)); });
  } else if constexpr (std::is_same_v<T, NumberOrAuto>) {
    return value.automatic || limit.allows(value.number);
  } else if constexpr (std::is_same_v<T, CountScheduleOrAuto>) {
    return value.automatic || is_allowed(value.schedule, limit);
  } else if constexpr (std::is_same_v<T, CountSchedule> || std::is_same_v<T, NumberSchedule>) {
    return std::ranges::all_of(value.stages(), [&](const auto& stage) {
      return limit.allows(static_cast<double>(stage.value));
    });
  } else if constexpr (std::is_same_v<T, RampSchedule>) {
    return std::ranges::all_of(value.stages(), [&](const auto& stage) {
      return std::ranges::all_of(stage.value, [&](const Ramp& ramp) {
        return limit.allows(ramp.from) && limit.allows(ramp.to);
      });
    });
  } else {
    return true;
  }
}

}  // namespace tg
