#pragma once
#include <string_view>

#include "base/error.h"
#include "config/settings.h"

namespace tg {

// Returns Error(memory) for exhausted device or host memory. The message is `what` (the allocator's
// text), the sizes of model and batch, and the settings to lower.
Error explain_out_of_memory(const Settings& settings, std::string_view what);

}  // namespace tg
