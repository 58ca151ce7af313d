#include "config/script_names.h"

#include <algorithm>
#include <iterator>

namespace tg {

const ScriptSwitch* find_script_switch(std::string_view member) {
  const auto* const found = std::ranges::find(script_switches, member, &ScriptSwitch::member);
  return found == std::end(script_switches) ? nullptr : found;
}

std::vector<Entry> script_name_entries(std::map<std::string, bool>& values) {
  std::vector<Entry> entries;
  const auto add = [&](std::string_view member, const std::string& help) {
    auto assign = [&values, name = std::string(member)](std::string_view text) {
      return read_value(text, values[name]);
    };
    entries.push_back({.member = std::string(member),
                       .is_bool = true,
                       .words = words_of_type<bool>(),
                       .expected = expected_text<bool>(anything),
                       .value = value_text(false),
                       .help = help,
                       .role = role::option,
                       .assign = std::move(assign)});
  };
  for (const auto& [member, setting, value] : script_switches)
    add(member, fmt::format("{}={}", env_name(setting), value));
  for (const auto& [member, reason] : ignored_names)
    add(member, fmt::format("no effect: {}", reason));
  return entries;
}

void replace_script_switches(std::map<std::string, std::string>& texts) {
  for (const auto& [member, setting, value] : script_switches) {
    const auto found = texts.find(env_name(member));
    if (found == texts.end()) continue;
    bool on = false;
    const auto& selected = texts.try_emplace(env_name(setting), "off").first;
    if (read_value(found->second, on) && on) selected->second = value;
    texts.erase(found);
  }
}

}  // namespace tg
