#pragma once
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

}  // namespace tg
