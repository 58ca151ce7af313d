#pragma once
// Training steps, launched ahead of the device.
#include <cstdint>
#include <optional>

#include "train/run.h"
#include "train/step_reporter.h"

namespace tg {

// Launches a step, then reads back the metrics of the one before, which arrive while it runs.
class StepLauncher {
 public:
  explicit StepLauncher(Run& run)
      : run_(run), reporter_(run), rank_0_ms_(run.state.clock.elapsed_ms()) {}

  // The clock starts.
  void start() { reporter_.start(); }
  // Launches step `step` (from 0) at `elapsed_ms` of training time, as the clock `decided`.
  // Collective. Throws what read_back() and the data throw.
  void launch(std::int64_t step, double elapsed_ms, const Decisions& decided);
  // The stage of step `step`, before it is launched; nothing where it is the present one.
  void begin_stage(std::int64_t step, double elapsed_ms, std::int64_t stage);
  // Waits for the step under way, if there is one, and reports it; the state is then the one after
  // it. Errors: internal (a loss or gradient that is not finite), io, unavailable.
  void read_back();
  // Validation took so long, between two steps.
  void add_validation_time(double ms) { validation_ms_ += ms; }

  // Rank 0's training time, as all ranks have last read it.
  double rank_0_ms() const { return rank_0_ms_; }
  // Whether a rank was told to stop, as all ranks have read it.
  bool stop_requested() const { return stop_requested_; }

 private:
  void apply(std::int64_t step, double elapsed_ms, double lr_scale, const Decisions& decided);
  at::Tensor run_step(std::int64_t step, double lr_scale);
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
