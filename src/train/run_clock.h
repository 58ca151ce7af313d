#pragma once
// The clock of a run, and what is decided by it.
#include <ATen/ATen.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/elapsed.h"
#include "comm/communicator.h"
#include "config/batch_shape.h"
#include "config/settings.h"
#include "device/event.h"
#include "model/plan.h"
#include "optim/averaging.h"
#include "optim/schedule.h"
#include "train/lr_trace.h"

namespace tg {

// Estimates the training time at the end of steps that are still under way, from the steps that
// have ended.
class Pace {
 public:
  // The clock read `elapsed_ms` when `steps` steps had ended. Calls come in the order of steps.
  void ended(std::int64_t steps, double elapsed_ms);

  // Steps take another time from now on.
  void reset() { ends_.clear(); }

  // Whether enough steps have ended for an estimate.
  bool known() const { return ends_.size() >= kFewest; }
  // Returns the milliseconds on the clock when `steps` steps will have ended, by the mean of the
  // recent steps. Precondition: known().
  double expected_ms(std::int64_t steps) const;
  // Returns the longest of the recent steps, a bound on the estimate's error. Precondition:
  // known().
  double tolerance_ms() const { return longest_ms_; }

  template <class Visit>
  void visit_state(Visit&& visit) {
    auto count = static_cast<std::int64_t>(ends_.size());
    visit("pace.count", count);
    ends_.resize(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < ends_.size(); ++i) {
      visit("pace." + std::to_string(i) + ".steps", ends_[i].steps);
      visit("pace." + std::to_string(i) + ".elapsed_ms", ends_[i].elapsed_ms);
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

// Time spent training: it stops for validation.
class TrainingClock {
 public:
  void start() { began_ = Clock::now(), running_ = true; }
  void stop() { spent_ms_ = elapsed_ms(), running_ = false; }
  // The time spent so far is this.
  void set(double elapsed_ms) { spent_ms_ = elapsed_ms, began_ = Clock::now(); }
  double elapsed_ms() const { return spent_ms_ + (running_ ? milliseconds_since(began_) : 0.0); }

 private:
  Clock::time_point began_;
  double spent_ms_ = 0;
  bool running_ = false;
};

// What depends on the training time so far.
struct Decisions {
  bool stop, fake_quant, swa;
  std::int64_t stage;  // of the model's plan
  BatchShape shape;
  bool operator==(const Decisions&) const = default;
};

// Training time, which excludes validation. Rank 0's decides for all ranks.
class RunClock {
 public:
  // The stages are the model's and must outlive this.
  RunClock(const Settings& settings, const std::vector<Stage>& stages, at::Device device,
           Communicator& communicator)
      : settings_(settings),
        stages_(stages),
        device_(device),
        communicator_(communicator),
        lr_schedule_(settings.run) {}

  // Instead of what the clock says. Errors: config (batches that the settings never have).
  void replay(const std::vector<TracedStep>& trace);
  double lr_scale(std::int64_t step, double elapsed_ms) const {
    return lr_schedule_.scale(step, elapsed_ms);
  }

  // Precondition: the device is idle, and its next work is a step.
  void start();
  void stop() { host_.stop(); }
  // By this rank's host.
  double elapsed_ms() const { return host_.elapsed_ms(); }

  // The next step's end in the compute stream; the device has reached it.
  void step_ended(const Event& ended);
  // By this rank's device, at the end of the last step passed to step_ended().
  double last_step_ms() const { return last_step_ms_; }
  // Rank 0's clock at the end of `steps` steps, which all ranks have read.
  void add_rank_0_time(std::int64_t steps, double elapsed_ms) { pace_.ended(steps, elapsed_ms); }
  // The next step takes another time than those before.
  void pace_changes() { pace_.reset(); }

  Decisions decide(std::int64_t step, double elapsed_ms, const WeightAverage& average) const;
  // Rank 0's training time at the end of `step` steps, the same on every rank. It is estimated from
  // past steps that all ranks know, so that no rank waits for a step under way, unless an error of
  // one step's length would change decide(); then it is measured: `read_back` waits for the steps
  // under way and calls step_ended() for each. Collective.
  double elapsed_at(std::int64_t step, const WeightAverage& average,
                    const std::function<void()>& read_back);

  // Visits all state that a run resumes from, as RunState does. Precondition: the clock is stopped.
  template <class Visit>
  void visit_state(Visit&& visit) {
    double elapsed = elapsed_ms();
    visit("clock.elapsed_ms", elapsed);
    host_.set(elapsed);
    visit("clock.last_step_ms", last_step_ms_);
    pace_.visit_state(visit);
  }

 private:
  double from_rank_0(double value);
  BatchShape shape_at(std::int64_t step, double elapsed_ms) const;
  std::int64_t stage_at(std::int64_t step, double elapsed_ms) const;

  const Settings& settings_;
  const std::vector<Stage>& stages_;
  at::Device device_;
  Communicator& communicator_;
  LrSchedule lr_schedule_;
  // What a trace says of each step; empty: the settings decide.
  std::vector<BatchShape> traced_shapes_;
  std::vector<std::int64_t> traced_stages_;
  TrainingClock host_;
  // Steps end on the device before the host can read its clock, so their ends are measured from the
  // event of the last start(), when the clock read started_ms_.
  std::optional<Event> started_;
  double started_ms_ = 0;
  double last_step_ms_ = 0;
  Pace pace_;  // of rank 0's clock, the same on every rank
};

}  // namespace tg
