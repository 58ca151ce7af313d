#pragma once
// Warnings about settings without effect: no setting is silently ignored.
#include <string>
#include <vector>

#include "config/settings.h"

namespace tg {

// Returns one line for each setting that was given and has no effect.
std::vector<std::string> ineffective_settings(const Settings& settings, const Origins& origins);

}  // namespace tg
