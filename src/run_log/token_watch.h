#pragma once
// Detectors of slow data loading and of repeated training tokens.
#include <cstdint>
#include <optional>

#include "run_log/events.h"

namespace tg {

// Detects that training waits for tokens for more than 5% of the time: in a window of ten seconds,
// or as soon as it has waited for a second. Each warning doubles both thresholds for the next one.
class StallWatch {
 public:
  // Called after each step, with the wait and the training time in milliseconds since the start.
  // Returns the warning, if any.
  std::optional<TokensStalled> after_step(std::int64_t step, double waited_ms, double elapsed_ms);

 private:
  std::int64_t first_step_ = 0;
  double waited_before_ = 0, elapsed_before_ = 0;  // values at the window's begin
  double patience_ = 1;
};

// Detects, once per run, that the training tokens are repeated too often. Four passes over the same
// text are worth nearly as much as new text; later ones less and less (Muennighoff et al. 2023,
// arXiv 2305.16264).
class RepetitionWatch {
 public:
  // Called after each step. `pass`: the pass in which the step ended, from 1, if known.
  std::optional<TokensRepeated> after_step(std::int64_t step, std::optional<std::int64_t> pass) {
    if (warned_ || pass.value_or(1) <= kPassesWorthwhile) return {};
    warned_ = true;
    return TokensRepeated{step, *pass};
  }

 private:
  static constexpr std::int64_t kPassesWorthwhile = 4;
  bool warned_ = false;
};

}  // namespace tg
