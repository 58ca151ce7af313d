#pragma once
// The loop of a run: steps, and between them validations, checkpoints and the trace.
#include <cstdint>

#include "train/run.h"
#include "train/step_launcher.h"

namespace tg {

class TrainLoop {
 public:
  explicit TrainLoop(Run& run) : run_(run), steps_(run) {}
  // From the state's step to the last one, by ITERATIONS or by the clock. Collective. Errors:
  // internal (a loss or gradient that is not finite), those of reading and writing; stopped.
  void run();

 private:
  void start();
  void begin_training();
  void begin_evaluations();
  // In the run's stage; after the last step in the one that the plan scores then.
  void validate(std::int64_t step, bool last);
  void trace(std::int64_t step, bool last);
  void save_checkpoint();
  [[noreturn]] void stop();

  Run& run_;
  StepLauncher steps_;
};

}  // namespace tg
