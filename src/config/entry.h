#pragma once
// A setting, or an option of one command, as the parser, the help text and the completion see it.
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "config/text.h"

namespace tg {

struct Entry {
  std::string member;
  bool is_bool;
  std::string expected;  // what it takes: expected_text
  std::string value;     // when the entry was made: its default
  std::string help;
  std::function<bool(std::string_view)> assign;  // false: no such value
};

// Of a group with `visit`, such as Settings, which must outlive the entries.
template <class Group>
std::vector<Entry> entries_of(Group& group) {
  std::vector<Entry> entries;
  group.visit([&](const char* name, auto& member, const Limit& limit, const char* help) {
    using T = std::remove_reference_t<decltype(member)>;
    auto assign = [&member, limit](std::string_view text) {
      T value{};
      if (!read_value(text, value) || !is_allowed(value, limit)) return false;
      member = std::move(value);
      return true;
    };
    entries.push_back(
        {name, std::is_same_v<T, bool>, expected_text<T>(limit), value_text(member), help, assign});
  });
  return entries;
}

// With the defaults of a group that lives as long as the program.
template <class Group>
std::vector<Entry> default_entries() {
  static Group defaults;
  return entries_of(defaults);
}

}  // namespace tg
