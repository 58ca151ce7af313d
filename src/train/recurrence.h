#pragma once
#include "config/settings.h"
#include "run_log/events.h"

namespace tg {

// As reports name it.
RecurrenceOrder recurrence_order(const ModelConfig& model);

}  // namespace tg
