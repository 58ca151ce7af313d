#pragma once
// Launches training steps ahead of the device, and reports them.
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

// Launches a step, then reads back the previous step's metrics, which arrive while it runs.
class StepLauncher {
 public:
  explicit StepLauncher(Run& run) : run_(run), rank_0_ms_(run.state.clock.elapsed_ms()) {}

  // Call it when the clock starts: the wait for tokens is measured from here.
  void start() { waited_before_ms_ = run_.parts.feeder.waited_ms(); }
  // Launches step `step` (from 0) at `elapsed_ms` of training time, with the clock's decisions.
  // Collective. Throws the errors of read_back() and of the data.
  void launch(std::int64_t step, double elapsed_ms, const Decisions& decided);
  // Begins the stage of step `step`, before it is launched; does nothing if the stage does not
  // change.
  void begin_stage(std::int64_t step, double elapsed_ms, std::int64_t stage);
  // Waits for the step in flight, if any, updates the run's state and reports the step, with
  // warnings derived from it. Throws the errors of FiniteWatch, io, unavailable.
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
  void report(const LaunchedStep& launched, const StepMetrics& metrics);
  // Whether the feeder counts the tokens that are read: except in the strided order, a micro-batch
  // consumes one token more than it trains on, and orders that align to documents skip tokens.
  bool counts_tokens_read() const {
    return run_.settings.data.loader_order != LoaderOrder::strided;
  }

  Run& run_;
  std::optional<LaunchedStep> launched_;
  double rank_0_ms_;
  double validation_ms_ = 0;  // since the last step
  bool stop_requested_ = false;
  StallWatch stall_watch_;
  RepetitionWatch repetition_watch_;
  bool first_step_reported_ = false;
  double waited_before_ms_ = 0;
};

}  // namespace tg
