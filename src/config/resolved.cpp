#include "config/resolved.h"

#include <cassert>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "config/script_names.h"
#include "config/types/text.h"

namespace tg {
namespace {

std::string line_of(const std::string& name, const std::string& value) {
  return name + "=" + quoted_value(value) + "\n";
}

std::string scalar_text(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value_text(value.get<bool>());
  // dump() recurses into nested values: a hostile file would overflow the stack.
  return value.is_structured() ? "..." : value.dump();
}

std::string json_text(const nlohmann::json& value) {
  if (!value.is_array()) return scalar_text(value);
  std::vector<std::string> items;
  for (const auto& item : value) items.push_back(scalar_text(item));
  return value_text(items);
}

template <class T>
nlohmann::json json_of(const T& value) {
  if constexpr (requires { value.automatic; }) {
    return value.automatic ? nlohmann::json("auto") : json_of(value.value);
  } else if constexpr (std::is_same_v<T, CountSchedule> || std::is_same_v<T, NumberSchedule>) {
    return value.constant() ? nlohmann::json(value.first()) : nlohmann::json(value_text(value));
  } else if constexpr (std::is_same_v<T, Fp8Parts>) {
    return value.any() == value.all() ? nlohmann::json(value.any())
                                      : nlohmann::json(value_text(value));
  } else if constexpr (std::is_enum_v<T> || std::is_same_v<T, Every> ||
                       std::is_same_v<T, RampSchedule>) {
    return value_text(value);
  } else {
    return value;
  }
}

}  // namespace

nlohmann::json settings_json(const Settings& settings, const Origins& origins) {
  nlohmann::json json = {{"settings", nlohmann::json::object()},
                         {"origins", nlohmann::json::object()}};
  for_each_setting(settings, [&]<class T>(const Setting<const T>& setting) {
    const std::string key = env_name(setting.name);
    json["settings"][key] = json_of(setting.value);
    const auto found = origins.find(setting.name);
    json["origins"][key] = found == origins.end() ? origin::program : found->second;
  });
  return json;
}

std::string settings_text(const Settings& settings) {
  std::string text;
  for_each_setting(settings, [&](const auto& setting) {
    text += line_of(env_name(setting.name), value_text(setting.value));
  });
  return text;
}

std::optional<std::string> changed_settings_text(const nlohmann::json& config) {
  const auto settings = config.find("settings");
  if (settings == config.end() || !settings->is_object()) return std::nullopt;
  const auto defaults = settings_json(Settings(), {})["settings"];
  std::string text;
  for (const auto& [name, value] : settings->items()) {
    const auto found = defaults.find(name);
    if (found == defaults.end() || *found != value) text += line_of(name, json_text(value));
  }
  return text;
}

std::optional<std::vector<Assignment>> model_settings(const nlohmann::json& config) {
  const auto found = config.find("settings");
  if (found == config.end() || !found->is_object()) return std::nullopt;
  std::vector<Assignment> assignments;
  const auto add = [&](std::string_view member) {
    const auto value = found->find(env_name(member));
    if (value != found->end()) assignments.push_back({env_name(member), json_text(*value), 0});
  };
  for (const auto& older : script_switches) add(older.member);  // what older programs wrote
  for_each_setting(Settings(), [&](const auto& setting) {
    if (setting.role.scope == Scope::model) add(setting.name);
  });
  return assignments;
}

std::string experiment_text(const Settings& settings) {
  std::string text;
  for_each_setting(settings, [&](const auto& setting) {
    if (setting.role.scope == Scope::rank) return;
    text += line_of(env_name(setting.name), value_text(setting.value));
  });
  return text;
}

std::string setting_text(const Settings& settings, std::string_view member) {
  std::string text;
  [[maybe_unused]] bool found = false;
  for_each_setting(settings, [&](const auto& setting) {
    if (member != setting.name) return;
    text = value_text(setting.value);
    found = true;
  });
  assert(found);
  return text;
}

}  // namespace tg
