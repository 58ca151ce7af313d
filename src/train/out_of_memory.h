#pragma once
#include <string_view>

#include "base/error.h"
#include "config/settings.h"

namespace tg {

// Error(memory) for memory exhausted on the device or the host, of which `what` says how much was
// asked for: by how large a model and batch, and which settings to lower.
Error explain_out_of_memory(const Settings& settings, std::string_view what);

}  // namespace tg
