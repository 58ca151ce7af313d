#pragma once
#include <cstdint>
#include <optional>

#include "run_log/token_watch.h"
#include "train/readback.h"
#include "train/run.h"

namespace tg {

// A step that was launched and whose metrics have not been read back.
struct LaunchedStep {
  std::int64_t step;         // from 1
  std::int64_t clock_steps;  // its metrics' clock_ms is the time at the end of so many steps
  std::int64_t tokens;       // trained on by all ranks together, in this step and those before
  std::int64_t seq_len;
  std::int64_t stage;
  double lr_scale;
  Event ended;
  Readback metrics;
  std::optional<StepRecord> record;  // for the timing breakdown
  double val_ms;                     // spent on validation since the step before
  std::int64_t tokens_read;          // as `tokens`
};

// Reports steps whose metrics have been read back, and warns of what they show.
class StepReporter {
 public:
  explicit StepReporter(Run& run) : run_(run) {}

  // The clock starts: the wait for tokens counts from here.
  void start() { waited_before_ms_ = run_.parts.feeder.waited_ms(); }
  // Throws what FiniteWatch throws; Error(io).
  void step_ended(const LaunchedStep& launched, const StepMetrics& metrics);
  // By all ranks together, in steps that train on `trained` tokens and of which the last has just
  // been launched.
  std::int64_t tokens_read(std::int64_t trained) const;

 private:
  std::optional<std::int64_t> pass_of(std::int64_t tokens_read) const;

  Run& run_;
  StallWatch stall_watch_;
  RepetitionWatch repetition_watch_;
  bool first_step_reported_ = false;
  double waited_before_ms_ = 0;
};

}  // namespace tg
