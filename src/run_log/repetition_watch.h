#pragma once
#include <cstdint>
#include <optional>

#include "run_log/events.h"

namespace tg {

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
