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
inline constexpr std::size_t phase_count = 6;

// Milliseconds of one optimizer step, all micro-steps together.
struct StepTimes {
  double batch_cpu = 0;  // the host: until it had the tokens
  double batch_h2d = 0;  // copies to the device, beside computing where they have their stream
  double data_wait = 0;  // the compute stream: from the work before to having the batch
  double forward = 0, backward = 0;
  double reduce = 0;  // gradients over the ranks, on one rank casting them
  double grad_clip = 0, optimizer = 0;
  double comm = 0;  // waiting for collectives
  double host = 0;  // the host: launching the step, without waiting for tokens
  double explicit_sync =
      0;            // waiting for the device before a phase is begun, in the mode that does
  double step = 0;  // from the first phase's begin to the last one's end

  // The phases on the compute stream: nearly `step`.
  double phases() const {
    return data_wait + forward + backward + reduce + grad_clip + optimizer + comm + explicit_sync;
  }
};

// What was recorded of one step. On a GPU times() may be called once the step is done.
struct StepRecord {
  struct Interval {
    Phase phase;
    Event began, ended;
  };
  std::vector<Interval> intervals;  // in order
  std::vector<BatchFeed::CopyTime> copies;
  std::vector<std::pair<Phase, Communicator::CollectiveWait>>
      waits;  // for collectives, within intervals of their phase
  double batch_cpu = 0, host = 0, explicit_sync = 0;

  StepTimes times() const;
};

// Times the phases of steps, and names them for profilers. TRAINING_TIMING_BREAKDOWN=events takes
// the times from events in the compute stream and disturbs nothing; =1 waits for the device before
// and after each phase and reads the host's clock, as the reference implementation does; 0 takes
// none. On a CPU all times are the host's.
class PhaseRecorder {
 public:
  class Scope {
   public:
    Scope(PhaseRecorder& recorder, Phase phase, std::int64_t batch);
    // An error of the device in this phase is thrown by the next scope or by end_step().
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

  // Every phase is a span in `spans`, which may be null. `wait_for_device` waits until the device
  // is idle, before and after each phase of the mode sync; null: the GPU's own wait, on a GPU.
  PhaseRecorder(TimingBreakdown mode, bool nvtx, at::Device device, SpanLog* spans,
                std::function<void()> wait_for_device = nullptr);

  void begin_step(BatchFeed& feed);
  // For as long as the scope lives; `batch` is the micro-batch that it works on, if any.
  [[nodiscard]] Scope enter(Phase phase, std::int64_t batch = -1) { return {*this, phase, batch}; }
  // Waits for collectives within a phase count as `comm`, not as the phase.
  void add_waits(Phase phase, std::vector<Communicator::CollectiveWait> waits);
  // Nothing when the breakdown is off.
  std::optional<StepRecord> end_step(BatchFeed& feed);

 private:
  c10::Stream timeline() const;
  void wait_for_device() const;
  void throw_failure();

  TimingBreakdown mode_;
  bool nvtx_;
  at::Device device_;
  SpanLog* spans_;
  std::function<void()> wait_for_device_;
  std::exception_ptr failure_;  // of the device, at the end of a scope
  StepRecord record_;
  std::optional<Event> host_began_;
  double waited_before_ = 0;
};

}  // namespace tg
