#pragma once
// Launches training steps ahead of the device.
#include <cstdint>
#include <optional>

#include "train/run.h"
#include "train/step_reporter.h"

namespace tg {

// Launches a step, then reads back the previous step's metrics, which arrive while it runs.
class StepLauncher {
 public:
  explicit StepLauncher(Run& run)
      : run_(run), reporter_(run), rank_0_ms_(run.state.clock.elapsed_ms()) {}

  // Call it when the clock starts.
  void start() { reporter_.start(); }
  // Launches step `step` (from 0) at `elapsed_ms` of training time, with the clock's decisions.
  // Collective. Throws the errors of read_back() and of the data.
  void launch(std::int64_t step, double elapsed_ms, const Decisions& decided);
  // Begins the stage of step `step`, before it is launched; does nothing if the stage does not
  // change.
  void begin_stage(std::int64_t step, double elapsed_ms, std::int64_t stage);
  // Waits for the step in flight, if any, updates the run's state and reports the step. Throws
  // ExitCode::internal if a loss or gradient is not finite, io, unavailable.
  void read_back();
  // Adds the time of a validation between two steps.
  void add_validation_time(double ms) { validation_ms_ += ms; }

  // Rank 0's training time, as last read back on all ranks.
  double rank_0_ms() const { return rank_0_ms_; }
  // Returns whether any rank was told to stop, as last read back on all ranks.
  bool stop_requested() const { return stop_requested_; }

 private:
  void apply(std::int64_t step, double elapsed_ms, double lr_scale, const Decisions& decided);
  at::Tensor run_step(std::int64_t step, double elapsed_ms, double lr_scale);
  bool update_average(std::int64_t steps_done, double lr_scale);
  std::int64_t tokens_of_step(const BatchShape& shape) const;

  Run& run_;
  StepReporter reporter_;
  std::optional<LaunchedStep> launched_;
  double rank_0_ms_;
  double validation_ms_ = 0;  // since the last step
  bool stop_requested_ = false;
};

}  // namespace tg
