#pragma once
// Warnings about settings without effect: no setting is silently ignored.
#include <string>
#include <vector>

#include "config/settings.h"

namespace tg {

// One line for each setting that was set and has no effect, or none yet.
std::vector<std::string> ineffective_settings(const Settings& settings, const Origins& origins);

}  // namespace tg
