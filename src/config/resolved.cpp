#include "config/resolved.h"

#include <array>
#include <cassert>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "base/is_in.h"
#include "config/env_file.h"
#include "config/text.h"

namespace tg {
namespace {

constexpr std::array<std::string_view, 6> of_one_run = {
    "run_id", "output_dir", "profile", "profile_start", "profile_steps", "tensorboard"};

// Those and these say nothing of the model.
constexpr std::array<std::string_view, 6> of_one_machine = {"init_from", "weights",   "artifact",
                                                            "device",    "attention", "fp8"};

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

}  // namespace

nlohmann::json settings_json(const Settings& settings, const Origins& origins) {
  nlohmann::json json = {{"settings", nlohmann::json::object()},
                         {"origins", nlohmann::json::object()}};
  settings.visit([&](const char* name, const auto& value, const Limit&, const char*) {
    using T = std::remove_cvref_t<decltype(value)>;
    const std::string key = env_name(name);
    if constexpr (std::is_enum_v<T>) {
      json["settings"][key] = choice_name(value);
    } else if constexpr (std::is_same_v<T, Every>) {
      json["settings"][key] = value_text(value);
    } else if constexpr (std::is_same_v<T, Fp8Parts>) {
      json["settings"][key] = value.any() == value.all() ? nlohmann::json(value.any())
                                                         : nlohmann::json(value_text(value));
    } else if constexpr (std::is_same_v<T, CountOrAuto>) {
      json["settings"][key] =
          value.automatic ? nlohmann::json("auto") : nlohmann::json(value.count);
    } else if constexpr (std::is_same_v<T, CountSchedule>) {
      json["settings"][key] =
          value.constant() ? nlohmann::json(value.first()) : nlohmann::json(value_text(value));
    } else {
      json["settings"][key] = value;
    }
    const auto origin = origins.find(name);
    json["origins"][key] = origin == origins.end() ? "default" : origin->second;
  });
  return json;
}

std::string settings_text(const Settings& settings) {
  std::string text;
  settings.visit([&](const char* name, const auto& value, const Limit&, const char*) {
    text += line_of(env_name(name), value_text(value));
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
  Settings().visit([&](const char* name, const auto&, const Limit&, const char*) {
    const auto value = found->find(env_name(name));
    if (value == found->end() || is_in(of_one_run, name) || is_in(of_one_machine, name)) return;
    assignments.push_back({env_name(name), json_text(*value), 0});
  });
  return assignments;
}

std::string experiment_text(const Settings& settings) {
  std::string text;
  settings.visit([&](const char* name, const auto& value, const Limit&, const char*) {
    if (is_in(of_one_run, name)) return;
    text += line_of(env_name(name), value_text(value));
  });
  return text;
}

std::string setting_text(const Settings& settings, std::string_view member) {
  std::string text;
  [[maybe_unused]] bool found = false;
  settings.visit([&](const char* name, const auto& value, const Limit&, const char*) {
    if (member != name) return;
    text = value_text(value);
    found = true;
  });
  assert(found);
  return text;
}

}  // namespace tg
