#pragma once
#include <functional>

#include "config/settings.h"

namespace tg {

// Runs `work`; memory exhausted on the device or the host becomes Error(memory), which says how
// much was asked for by how large a model and batch, and which settings to lower.
void explaining_out_of_memory(const Settings& settings, const std::function<void()>& work);

}  // namespace tg
