#pragma once
// The resolved settings of a run, as JSON and as text.
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/env_file.h"
#include "config/settings.h"

namespace tg {

// {"settings": {"MATRIX_LR": 0.025, ...}, "origins": {"MATRIX_LR": "default", ...}}
nlohmann::json settings_json(const Settings& settings, const Origins& origins);
// A NAME=value line for each setting, as --config files have them.
std::string settings_text(const Settings& settings);
// The same lines for the settings in `config`, a run's config.json, whose values are not this
// program's defaults; nothing where `config` has no settings.
std::optional<std::string> changed_settings_text(const nlohmann::json& config);
// The settings in `config`, a run's config.json, with which its model is used later: those that
// this program has and whose scope is the model. Nothing where `config` has no settings.
std::optional<std::vector<Assignment>> model_settings(const nlohmann::json& config);
// The lines of settings_text without those that may differ between ranks and runs of one
// experiment, whose scope is the rank.
std::string experiment_text(const Settings& settings);
// One setting's value as text, by member name.
std::string setting_text(const Settings& settings, std::string_view member);

}  // namespace tg
