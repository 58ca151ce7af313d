#pragma once
// A setting, or an option of one command, as the parser, the help text and the completion see it.
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "config/setting.h"
#include "config/types/text.h"

namespace tg {

struct Entry {
  std::string member;
  bool is_bool;
  std::vector<std::string_view> words;  // the values allowed; empty: not a list of words
  std::string expected;                 // description of the values: expected_text
  std::string value;                    // when the entry was made, so the default
  std::string help;
  Role role;
  std::function<bool(std::string_view)> assign;  // false: no such value
};

// Returns the entries of a group of settings, which must outlive them. `all`: as for_each_setting.
std::vector<Entry> entries_of(auto& group, const auto&... all) {
  std::vector<Entry> entries;
  const auto add = [&]<class T>(const Setting<T>& setting) {
    auto assign = [&member = setting.value, limit = setting.limit](std::string_view text) {
      T value{};
      if (!read_value(text, value) || !is_allowed(value, limit)) return false;
      member = std::move(value);
      return true;
    };
    entries.push_back({.member = setting.name,
                       .is_bool = std::is_same_v<T, bool>,
                       .words = words_of_type<T>(),
                       .expected = expected_text<T>(setting.limit),
                       .value = value_text(setting.value),
                       .help = setting.help,
                       .role = setting.role,
                       .assign = std::move(assign)});
  };
  for_each_setting(group, add, all...);
  return entries;
}

// Returns entries with the defaults of `Group`, which live as long as the program.
template <class Group>
std::vector<Entry> default_entries() {
  static Group defaults;
  return entries_of(defaults);
}

}  // namespace tg
