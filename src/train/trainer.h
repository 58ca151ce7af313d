#pragma once
// The loop of a run: warm-up, steps with their validations, averaging, outputs.
#include <optional>
#include <string>

#include "config/settings.h"
#include "train/machine.h"
#include "train/report.h"
#include "train/run_parts.h"
#include "train/run_state.h"
#include "train/step_reporter.h"
#include "train/trace.h"

namespace tg {

class Trainer {
 public:
  // Opens tokens and tokenizer, makes or loads the weights. Errors: those of RunParts and of the
  // outputs. All ranks of the communicator construct one, and call run(), together.
  Trainer(const Settings& settings, const Machine& machine, const std::string& output_dir,
          const Origins& origins, const RanksJoined& ranks, Communicator& communicator);
  // Errors: internal (a loss or gradient that is not finite), those of reading and writing.
  void run();

 private:
  void loop();
  void train(std::int64_t step, double elapsed_ms);
  void read_back();
  void trace(std::int64_t step, bool last);
  void validate(std::int64_t step);
  Score score();
  void finish();
  void hand_in();

  const Settings& settings_;
  const Machine& machine_;
  Communicator& communicator_;
  const std::string output_dir_;
  RunParts parts_;
  RunState state_;
  Report report_;
  std::optional<Trace> trace_;
  StepReporter reporter_;
  double validation_before_step_ms_ = 0;  // since the last step
  std::optional<LaunchedStep> launched_;
};

}  // namespace tg
