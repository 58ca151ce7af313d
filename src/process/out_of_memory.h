#pragma once
#include <string_view>

#include "base/error.h"
#include "config/settings.h"

namespace tg {

// Error(memory) for memory exhausted on the device or the host. The message is `what` (the
// allocator's own words), the sizes of model and batch, and the settings to lower.
Error explain_out_of_memory(const Settings& settings, std::string_view what);

}  // namespace tg
