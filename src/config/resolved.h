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
// Returns lines as settings_text for the settings in `config`, a run's config.json, that differ
// from this program's defaults; nothing if `config` has no settings.
std::optional<std::string> changed_settings_text(const nlohmann::json& config);
// Returns the settings of scope `model` in `config`, a run's config.json, for later uses of its
// model; nothing if `config` has no settings. Names that this program does not know are left out.
std::optional<std::vector<Assignment>> model_settings(const nlohmann::json& config);
// Returns settings_text without the settings of scope `rank`, which may differ between ranks and
// between runs of one experiment.
std::string experiment_text(const Settings& settings);
// Returns the value of the setting `member` as text.
std::string setting_text(const Settings& settings, std::string_view member);

}  // namespace tg
