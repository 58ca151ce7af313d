#pragma once
#include <string>
#include <vector>

#include "config/run_config.h"

namespace tg {

// LR_TRACE: the learning-rate scale of every step of a run, from its metrics.jsonl. Errors: those
// of MetricsReader; bad_data (no steps, or not all from 1 on).
std::vector<double> read_lr_trace(const std::string& path);
// The run ends with the trace, if not before: what the clock decided once is not decided again.
void end_with(const std::vector<double>& trace, RunConfig& run);

}  // namespace tg
