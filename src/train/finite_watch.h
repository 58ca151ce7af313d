#pragma once
#include <cstdint>
#include <optional>

#include "config/runtime_config.h"
#include "run_log/events.h"
#include "train/train_step.h"

namespace tg {

// Handles steps whose loss or gradient is not finite, as ON_NONFINITE says. With a loss scale above
// 1 that is expected: such an overflow is counted, and nothing more. All ranks read the same
// metrics of the same step, and so decide the same.
class FiniteWatch {
 public:
  explicit FiniteWatch(const RuntimeConfig& config) : config_(config) {}
  // After each step; `skipped`: its update was not made. Errors: internal (the first such step with
  // `stop`; with `skip` the NONFINITE_LIMITth in a row).
  std::optional<StepSkipped> after_step(std::int64_t step, const StepMetrics& metrics);

  template <class Visit>
  void visit_state(Visit&& visit) {
    visit("finite_watch.skipped", skipped_);
    visit("finite_watch.in_a_row", in_a_row_);
    visit("finite_watch.overflows", overflows_);
  }

 private:
  const RuntimeConfig config_;
  std::int64_t skipped_ = 0, in_a_row_ = 0, overflows_ = 0;
};

}  // namespace tg
