#pragma once
// Combinations of settings that cannot work, found before anything slow happens.
#include <string>
#include <vector>

#include "config/settings.h"

namespace tg {

// One line each; empty: all is well. Ranges are checked too, for settings that no parser has seen.
std::vector<std::string> find_conflicts(const Settings& settings, int world_size);
// Throws one Error(config) with all of them.
void check_settings(const Settings& settings, int world_size);

}  // namespace tg
