#pragma once
// Checks of ranges and combinations of settings, made before anything slow happens.
#include <string>
#include <vector>

#include "config/settings.h"

namespace tg {

// One line for each conflict. Ranges are checked again, for Settings that were not parsed.
std::vector<std::string> find_conflicts(const Settings& settings, int world_size);
// Throws one Error(config) that lists all conflicts.
void check_settings(const Settings& settings, int world_size);

}  // namespace tg
