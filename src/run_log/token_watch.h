#pragma once
// Warnings, by what each step tells, that the training tokens come too slowly or too often.
#include <cstdint>
#include <optional>

#include "run_log/events.h"

namespace tg {

// Detects that training waits for tokens: at once when it is for a second, within ten when it is
// for more than a twentieth of the time. Each warning doubles the patience before the next one.
class StallWatch {
 public:
  // After each step; both in milliseconds since the start.
  std::optional<TokensStalled> after_step(std::int64_t step, double waited_ms, double elapsed_ms);

 private:
  std::int64_t first_step_ = 0;
  double waited_before_ = 0, elapsed_before_ = 0;  // where the window begins
  double patience_ = 1;
};

// Detects, once a run, that the training tokens are repeated too often. Four passes over the same
// text are worth nearly as much as new text; later ones less and less (Muennighoff et al. 2023,
// arXiv 2305.16264).
class RepetitionWatch {
 public:
  // After each step, which ended in `pass` (from 1) if that is known.
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
