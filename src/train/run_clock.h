#pragma once
// The clock of a run, and what is decided by it.
#include <ATen/ATen.h>

#include <functional>
#include <optional>

#include "comm/communicator.h"
#include "config/settings.h"
#include "device/moment.h"
#include "optim/averaging.h"
#include "train/clock.h"
#include "train/pace.h"

namespace tg {

// What depends on the training time so far.
struct Decisions {
  bool stop, fake_quant, swa;
  bool operator==(const Decisions&) const = default;
};

// Training time, which excludes validation. Rank 0's decides for all ranks.
class RunClock {
 public:
  RunClock(const Settings& settings, at::Device device, Communicator& communicator)
      : settings_(settings), device_(device), communicator_(communicator) {}

  // Wants an idle device, which begins with the next step.
  void start();
  void stop() { host_.stop(); }
  // By this rank's host.
  double elapsed_ms() const { return host_.elapsed_ms(); }

  // The next step's end in the compute stream; the device has reached it.
  void step_ended(const Moment& ended);
  // By this rank's device, when the last step ended that step_ended() was told of.
  double last_step_ms() const { return last_step_ms_; }
  // All ranks know that rank 0's clock read `elapsed_ms` when `steps` steps had ended.
  void rank_0_told(std::int64_t steps, double elapsed_ms) { pace_.ended(steps, elapsed_ms); }

  Decisions decide(std::int64_t step, double elapsed_ms, const WeightAverage& average) const;
  // Rank 0's training time when `step` steps have ended, the same on every rank. Where it decides
  // nothing, it is expected from past steps that all ranks know, so that nobody waits for a step
  // that is under way; where an error of one step's length would decide otherwise, it is measured:
  // `read_back` waits for the steps under way and calls step_ended() for each. Collective.
  double elapsed_at(std::int64_t step, const WeightAverage& average,
                    const std::function<void()>& read_back);

  // All that a run resumes from, as RunState visits it. Wants a stopped clock.
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

  const Settings& settings_;
  at::Device device_;
  Communicator& communicator_;
  TrainingClock host_;
  // Steps end on the device before the host can read its clock: when it was started there, and what
  // it read.
  std::optional<Moment> started_;
  double started_ms_ = 0;
  double last_step_ms_ = 0;
  Pace pace_;  // of rank 0's clock, the same on every rank
};

}  // namespace tg
