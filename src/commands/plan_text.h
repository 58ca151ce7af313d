#pragma once
#include <string>

#include "config/settings.h"

namespace tg {

// Describes the computation of a pass, stage by stage: its layer calls, each with block, lanes,
// skip and attention, and the parameters by kind.
std::string plan_text(const Settings& settings);

}  // namespace tg
