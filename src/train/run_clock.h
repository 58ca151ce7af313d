#pragma once
// The training clock of a run, and the decisions that depend on it.
#include <ATen/ATen.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/elapsed.h"
#include "comm/communicator.h"
#include "config/batch_shape.h"
#include "config/settings.h"
#include "device/event.h"
#include "model/plan.h"
#include "optim/averaging.h"
#include "train/lr_trace.h"

namespace tg {

// Predicts the training time at the end of steps in flight, from completed steps.
class Pace {
 public:
  // Records the clock's reading when `steps` steps had completed. Call it in the order of steps.
  void ended(std::int64_t steps, double elapsed_ms);

  // Forgets past steps: call it when step times change.
  void reset() { ends_.clear(); }

  // Returns whether enough steps have completed for a prediction.
  bool known() const { return ends_.size() >= kFewest; }
  // Predicted training time in ms at the end of `steps` steps, from the mean of recent steps.
  // Precondition: known().
  double expected_ms(std::int64_t steps) const;
  // The longest recent step, as a bound on the prediction's error. Precondition: known().
  double tolerance_ms() const { return longest_ms_; }

  void visit_state(auto&& call) {
    auto count = static_cast<std::int64_t>(ends_.size());
    call("pace.count", count);
    ends_.resize(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < ends_.size(); ++i) {
      call("pace." + std::to_string(i) + ".steps", ends_[i].steps);
      call("pace." + std::to_string(i) + ".elapsed_ms", ends_[i].elapsed_ms);
    }
    find_longest();
  }

 private:
  static constexpr std::size_t kFewest = 4, kRecent = 9;
  struct End {
    std::int64_t steps = 0;
    double elapsed_ms = 0;
  };
  void find_longest();

  std::deque<End> ends_;
  double longest_ms_ = 0;
};

// Training time; stopped during validation.
class TrainingClock {
 public:
  void start() { began_ = Clock::now(), running_ = true; }
  void stop() { spent_ms_ = elapsed_ms(), running_ = false; }
  // Sets the training time so far.
  void set(double elapsed_ms) { spent_ms_ = elapsed_ms, began_ = Clock::now(); }
  double elapsed_ms() const { return spent_ms_ + (running_ ? milliseconds_since(began_) : 0.0); }

 private:
  Clock::time_point began_;
  double spent_ms_ = 0;
  bool running_ = false;
};

// Decisions that depend on the training time.
struct Decisions {
  bool stop, fake_quant, swa;
  std::int64_t stage;  // index in the model's plan
  BatchShape shape;
  bool operator==(const Decisions&) const = default;
};

// The run's training time, without validation. Rank 0's clock decides for all ranks.
class RunClock {
 public:
  // `stages`: the model's; must outlive this object.
  RunClock(const Settings& settings, const std::vector<Stage>& stages, at::Device device,
           Communicator& communicator)
      : settings_(settings), stages_(stages), device_(device), communicator_(communicator) {}

  // Replays stages, batch shapes and learning-rate scales of a trace instead of following the
  // clock. Throws ExitCode::config if the settings do not allow a batch shape of the trace.
  void replay(const std::vector<TracedStep>& trace);
  double lr_scale(std::int64_t step, double elapsed_ms) const;

  // Starts the clock. Precondition: the device is idle, and the next work launched is a step.
  void start();
  void stop() { host_.stop(); }
  // Training time on this rank's host clock.
  double elapsed_ms() const { return host_.elapsed_ms(); }

  // Sets the end of the next step in the compute stream. Precondition: the event has completed.
  void step_ended(const Event& ended) { last_step_ms_ = started_ms_ + started_->ms_until(ended); }
  // Training time on this rank's device, at the end of the last step passed to step_ended().
  double last_step_ms() const { return last_step_ms_; }
  // Records rank 0's clock at the end of `steps` steps, as read back on all ranks.
  void add_rank_0_time(std::int64_t steps, double elapsed_ms) { pace_.ended(steps, elapsed_ms); }
  // Call it before a step that takes longer than previous ones.
  void pace_changes() { pace_.reset(); }

  Decisions decide(std::int64_t step, double elapsed_ms, const WeightAverage& average) const;
  // Rank 0's training time at the end of `step` steps, equal on all ranks. It is predicted from
  // past steps that all ranks have read, so that no rank waits for a step in flight, unless an
  // error of one step's length could change decide(): then `read_back` is called, which waits for
  // the steps in flight and calls step_ended() for each. Collective.
  double elapsed_at(std::int64_t step, const WeightAverage& average,
                    const std::function<void()>& read_back);

  // Layer calls the state to save or restore, see RunState. Precondition: the clock is stopped.
  void visit_state(auto&& call) {
    double elapsed = elapsed_ms();
    call("clock.elapsed_ms", elapsed);
    host_.set(elapsed);
    call("clock.last_step_ms", last_step_ms_);
    pace_.visit_state(call);
  }

 private:
  double from_rank_0(double value);
  BatchShape shape_at(std::int64_t step, double elapsed_ms) const;
  std::int64_t stage_at(std::int64_t step, double elapsed_ms) const;

  const Settings& settings_;
  const std::vector<Stage>& stages_;
  at::Device device_;
  Communicator& communicator_;
  // By step; empty: the settings decide.
  std::vector<TracedStep> trace_;
  std::vector<BatchShape> traced_shapes_;
  TrainingClock host_;
  // Steps end on the device before the host can read its clock, so step ends are measured from the
  // event of the last start(), at which the clock read started_ms_.
  std::optional<Event> started_;
  double started_ms_ = 0;
  double last_step_ms_ = 0;
  Pace pace_;  // of rank 0's clock; equal on all ranks
};

}  // namespace tg
