#pragma once
// The order of events of a run: warm-up, the training loop with its validations, averaging,
// outputs.
#include <optional>
#include <string>

#include "config/settings.h"
#include "data/feeder.h"
#include "data/splits.h"
#include "eval/validation.h"
#include "model/gpt.h"
#include "optim/averaging.h"
#include "optim/optimizer.h"
#include "train/clock.h"
#include "train/finite_watch.h"
#include "train/machine.h"
#include "train/pace.h"
#include "train/phases.h"
#include "train/readback.h"
#include "train/report.h"
#include "train/stall_watch.h"
#include "train/trace.h"
#include "train/train_step.h"

namespace tg {

class Trainer {
 public:
  // Opens tokens and tokenizer, makes or loads the weights. Errors: those of data, tokenizer,
  // INIT_FROM and outputs.
  // All ranks of the communicator make one, and run() it, together.
  Trainer(const Settings& settings, const Machine& machine, const std::string& output_dir,
          const Origins& origins, Communicator& communicator);
  // Errors: internal (a loss or gradient that is not finite), those of reading and writing.
  void run();

 private:
  struct Launched {
    std::int64_t step;
    std::int64_t settled;  // steps settled when it was launched
    double lr_scale;
    Event ended;
    Readback numbers;
    std::optional<StepRecord> record;  // for the timing breakdown
    double val_ms;                     // spent on validation before this step
    std::int64_t tokens_read;          // by all ranks together, in this step and those before
  };

  // What depends on the training time so far.
  struct Decisions {
    bool stop, fake_quant, swa;
    bool operator==(const Decisions&) const = default;
  };

  void start_clock();
  void warm_up();
  void train(std::int64_t step, double elapsed_ms);
  Decisions decide(std::int64_t step, double elapsed_ms) const;
  double elapsed_at(std::int64_t step);
  double from_rank_0(double value);
  std::int64_t tokens_read(std::int64_t steps) const;
  std::optional<std::int64_t> pass_of(std::int64_t tokens_read) const;
  void trace(std::int64_t step, bool last);
  void settle();
  void validate(std::int64_t step);
  void wait_for_device();
  void finish();

  const Settings& settings_;
  const Machine& machine_;
  Communicator& communicator_;
  const std::string output_dir_;
  SpanLog spans_;
  TokenSplits tokens_;
  Validation validation_;
  ParameterTable table_;
  Gpt model_;
  Optimizer optimizer_;
  Feeder feeder_;
  PhaseRecorder phases_;
  TrainStep step_;
  std::optional<WeightAverage> average_;  // from the first step on
  Report report_;
  std::optional<Trace> trace_;
  TrainingClock clock_;
  // On the device, whose steps end before the host can read its clock: when the clock was started,
  // and what it read.
  std::optional<Event> clock_started_;
  double clock_started_ms_ = 0;
  FiniteWatch finite_watch_;
  StallWatch stall_watch_;
  double waited_before_ms_ = 0;  // for tokens, before the first step
  double validation_ms_ = 0;
  double validation_before_step_ms_ = 0;
  bool fake_quant_;
  std::int64_t settled_ = 0;               // steps whose numbers have come
  double settled_ms_ = 0;                  // this rank's clock when the last of them ended
  Pace pace_;                              // of rank 0's clock, the same on every rank
  std::optional<std::int64_t> last_step_;  // set by the wallclock cap
  std::optional<Launched> pending_;
};

}  // namespace tg
