#pragma once
#include <string>

#include "config/settings.h"

namespace tg {

// What a pass of the settings' model computes, stage by stage: its visits, each with its block,
// lanes, skip and attention, and the parameters by kind.
std::string plan_text(const Settings& settings);

}  // namespace tg
