#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "config/run_config.h"

namespace tg {

// What a step was trained with.
struct TracedStep {
  double lr_scale = 1;
  std::int64_t tokens = 0, seq_len = 0;  // of all ranks; 0: the file does not say
  std::int64_t stage = 0;                // of the run
};

// LR_TRACE: reads the steps of a run from its metrics.jsonl. Throws what MetricsReader throws;
// Error(bad_data) without steps, or if they are not consecutive from 1 on.
std::vector<TracedStep> read_lr_trace(const std::string& path);
// The run ends with the trace, if not before: what the clock decided once is not decided again.
void end_with(const std::vector<TracedStep>& trace, RunConfig& run);
// The trace is the run's schedule, whatever SCHEDULE_ITERATIONS says.
void follow(const std::vector<TracedStep>& trace, RunConfig& run);

}  // namespace tg
