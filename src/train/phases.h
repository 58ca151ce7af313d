#pragma once
// Times the phases of a step.
#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include <exception>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "config/settings.h"
#include "data/feeder.h"

namespace tg {

enum class Phase { batch, forward, backward, reduce, grad_clip, optimizer };

// Milliseconds of one optimizer step, summed over its micro-steps.
struct StepTimes {
  double batch_cpu = 0;  // host: waiting for tokens
  double batch_h2d = 0;  // copies to the device; overlapped with compute if there is a copy stream
  double data_wait = 0;  // compute stream: from the end of previous work to the batch's arrival
  double forward = 0, backward = 0;
  double reduce = 0;  // reduction of gradients over ranks; with one rank, their cast
  double grad_clip = 0, optimizer = 0;
  double comm = 0;           // waiting for collectives
  double host = 0;           // host: launching the step, without waiting for tokens
  double explicit_sync = 0;  // waiting for the device before each phase, in mode sync
  double step = 0;           // from the begin of the first phase to the end of the last

  // Sum of the phases on the compute stream: nearly `step`.
  double phases() const {
    return data_wait + forward + backward + reduce + grad_clip + optimizer + comm + explicit_sync;
  }
};

// Events recorded in one step. On a GPU, call times() after the step has completed.
struct StepRecord {
  struct Interval {
    Phase phase;
    Event began, ended;
  };
  std::vector<Interval> intervals;  // in order
  std::vector<BatchFeed::CopyTime> copies;
  // Waits for collectives, within intervals of their phase.
  std::vector<std::pair<Phase, Communicator::CollectiveWait>> waits;
  StepTimes on_host;  // batch_cpu, host and explicit_sync

  StepTimes times() const;
};

// Times the phases of steps and names them for profilers. TRAINING_TIMING_BREAKDOWN=events records
// events in the compute stream, without synchronizing; =1 synchronizes the device before and after
// each phase and reads the host's clock, as the reference implementation does; =0 measures nothing.
// On a CPU, all times are the host's.
class PhaseRecorder {
 public:
  class Scope {
   public:
    Scope(PhaseRecorder& recorder, Phase phase, std::int64_t batch);
    // A device error in this phase is thrown by the next scope or by end_step().
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    PhaseRecorder& recorder_;
    Phase phase_;
    SpanScope span_;
    at::RecordFunction range_;
    std::optional<Event> began_;
  };

  // Logs each phase as a span in `spans`, which may be null. `wait_for_device`: waits until the
  // device is idle, before and after each phase in mode sync; null: wait_for_gpu() on a GPU.
  PhaseRecorder(TimingBreakdown mode, bool nvtx, at::Device device, SpanLog* spans,
                std::function<void()> wait_for_device = nullptr);

  void begin_step(BatchFeed& feed);
  // Times `phase` until the scope ends; `batch`: index of the micro-batch that it works on, or -1.
  [[nodiscard]] Scope enter(Phase phase, std::int64_t batch = -1) { return {*this, phase, batch}; }
  // Adds waits for collectives within `phase`: they count as `comm` instead of the phase.
  void add_waits(Phase phase, std::vector<Communicator::CollectiveWait> waits);
  // Returns nothing if the breakdown is off.
  std::optional<StepRecord> end_step(BatchFeed& feed);

 private:
  c10::Stream timeline() const;
  void wait_for_device() const;
  void throw_failure() {
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

  TimingBreakdown mode_;
  bool nvtx_;
  at::Device device_;
  SpanLog* spans_;
  std::function<void()> wait_for_device_;
  std::exception_ptr failure_;  // a device error at the end of a scope
  StepRecord record_;
  Clock::time_point host_began_;
  double waited_before_ = 0;
};

}  // namespace tg
