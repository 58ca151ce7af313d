#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "config/run_config.h"

namespace tg {

// Values that a step of the traced run used.
struct TracedStep {
  double lr_scale = 1;
  std::int64_t tokens = 0, seq_len = 0;  // over all ranks; 0: not in the file
  std::int64_t stage = 0;                // of the run's plan
};

// Reads the steps of a run from its metrics.jsonl (LR_TRACE). Throws errors of MetricsReader;
// bad_data if there are no steps, or if they are not numbered from 1 without gaps.
std::vector<TracedStep> read_lr_trace(const std::string& path);
// Ends the run with the trace at the latest, and ignores the clock, whose decisions the trace
// holds.
void end_with(const std::vector<TracedStep>& trace, RunConfig& run);
// Makes the trace's length the schedule's, overriding SCHEDULE_ITERATIONS.
void follow(const std::vector<TracedStep>& trace, RunConfig& run);

}  // namespace tg
