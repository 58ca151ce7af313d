#pragma once
// No setting is silently ignored: one line for each that is set and does nothing, or nothing yet.
#include <string>
#include <vector>

#include "config/settings.h"

namespace tg {

std::vector<std::string> notices(const Settings& settings, const Origins& origins);

}  // namespace tg
