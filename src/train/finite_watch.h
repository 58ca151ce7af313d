#pragma once
#include <cstdint>
#include <optional>

#include "config/runtime_config.h"
#include "run_log/events.h"
#include "train/train_step.h"

namespace tg {

// Handles steps with a non-finite loss or gradient as ON_NONFINITE says. Overflows with a loss
// scale above 1 are expected and only counted. All ranks read the same metrics, so they take the
// same decision.
class FiniteWatch {
 public:
  explicit FiniteWatch(const RuntimeConfig& config) : config_(config) {}
  // Call it after each step; reports a step whose update was skipped. Throws ExitCode::internal at
  // the first such step with ON_NONFINITE=stop, or at the NONFINITE_LIMITth in a row with `skip`.
  std::optional<StepSkipped> after_step(std::int64_t step, const StepMetrics& metrics);

  template <class LayerCall>
  void visit_state(LayerCall&& call) {
    call("finite_watch.skipped", skipped_);
    call("finite_watch.in_a_row", in_a_row_);
    call("finite_watch.overflows", overflows_);
  }

 private:
  const RuntimeConfig config_;
  std::int64_t skipped_ = 0, in_a_row_ = 0, overflows_ = 0;
};

}  // namespace tg
