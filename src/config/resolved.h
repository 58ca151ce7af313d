#pragma once
// The settings a run ended up with, as files keep them.
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "config/settings.h"

namespace tg {

// {"settings": {"MATRIX_LR": 0.025, ...}, "origins": {"MATRIX_LR": "default", ...}}
nlohmann::json settings_json(const Settings& settings, const Origins& origins);
// NAME=value lines that --config reads back.
std::string settings_text(const Settings& settings);
// The same lines for the settings in `config`, a run's config.json, whose values are not this
// program's defaults; nothing where `config` has no settings.
std::optional<std::string> changed_settings_text(const nlohmann::json& config);
// The lines of settings_text, less what may differ between ranks and runs of one experiment: the
// run's name, where its results go, and profiling.
std::string experiment_text(const Settings& settings);
// One setting's value as text, by member name.
std::string setting_text(const Settings& settings, std::string_view member);

}  // namespace tg
