#pragma once
#include <cstdint>
#include <optional>

#include "run_log/token_watch.h"
#include "train/readback.h"
#include "train/run.h"

namespace tg {

// A launched step whose metrics have not been read back.
struct LaunchedStep {
  std::int64_t step;         // from 1
  std::int64_t clock_steps;  // number of steps at whose end its metrics' clock_ms was read
  std::int64_t tokens;       // trained on so far by all ranks, including this step
  std::int64_t seq_len;
  std::int64_t stage;
  double lr_scale;
  Event ended;
  Readback metrics;
  std::optional<StepRecord> record;  // for the timing breakdown
  double val_ms;                     // spent in validation since the previous step
  std::int64_t tokens_read;          // read so far by all ranks, including this step
};

// Reports steps whose metrics have been read back, and warnings derived from them.
class StepReporter {
 public:
  explicit StepReporter(Run& run) : run_(run) {}

  // Call it when the clock starts: the wait for tokens is measured from here.
  void start() { waited_before_ms_ = run_.parts.feeder.waited_ms(); }
  // Throws the errors of FiniteWatch; io.
  void step_ended(const LaunchedStep& launched, const StepMetrics& metrics);
  // Tokens read by all ranks in the steps launched so far, which train on `trained` tokens. Call it
  // just after a launch.
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
