#pragma once
// The loop of a run: warm-up, steps with their validations and checkpoints, averaging, outputs.
#include <optional>
#include <string>
#include <vector>

#include "config/settings.h"
#include "train/checkpoints.h"
#include "train/machine.h"
#include "train/report.h"
#include "train/resume.h"
#include "train/run_parts.h"
#include "train/run_state.h"
#include "train/step_reporter.h"
#include "train/trace.h"

namespace tg {

// What a run is given, by the command that starts it.
struct RunSetup {
  const Settings& settings;
  const Origins& origins;
  const Machine& machine;
  RanksJoined ranks;
  Store store;  // null for a single rank
  std::string output_dir;
  std::optional<ResumePoint> resume;
  std::vector<TracedStep> lr_trace;  // of LR_TRACE, if any
};

class Trainer {
 public:
  // Opens tokens and tokenizer, makes or loads the weights. Errors: those of RunParts and of the
  // outputs. All ranks of the communicator construct one, and call run(), together.
  Trainer(RunSetup setup, Communicator& communicator);
  // Errors: internal (a loss or gradient that is not finite), those of reading and writing;
  // stopped.
  void run();

 private:
  void loop();
  void begin_training();
  [[noreturn]] void stop();
  void begin_evaluations();
  void train(std::int64_t step, double elapsed_ms);
  void change_batches(std::int64_t step, const BatchShape& shape);
  void read_back();
  void trace(std::int64_t step, bool last);
  void validate(std::int64_t step);
  void make_room();
  Score score();
  void finish();
  void hand_in();

  const Settings& settings_;
  const Machine& machine_;
  Communicator& communicator_;
  const std::string output_dir_;
  RunParts parts_;
  const FrozenTexts data_;  // data_identity()
  std::optional<ResumePoint> resume_;
  RunState state_;
  Report report_;
  Checkpoints checkpoints_;
  std::optional<Trace> trace_;
  StepReporter reporter_;
  double validation_before_step_ms_ = 0;  // since the last step
  double rank_0_ms_ = 0;                  // rank 0's training time, as all ranks have last read it
  bool stop_ = false;                     // a rank was told to
  std::optional<LaunchedStep> launched_;
};

}  // namespace tg
