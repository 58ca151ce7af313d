#include "run_log/token_watch.h"

namespace tg {

std::optional<TokensStalled> StallWatch::after_step(std::int64_t step, double waited_ms,
                                                    double elapsed_ms) {
  constexpr double long_wait_ms = 1000, window_ms = 10000, max_fraction = 0.05;
  const double waited = waited_ms - waited_before_, elapsed = elapsed_ms - elapsed_before_;
  const bool stalls = waited > max_fraction * elapsed;
  if (elapsed < patience_ * window_ms && !(stalls && waited >= patience_ * long_wait_ms)) return {};

  std::optional<TokensStalled> stalled;
  if (stalls) {
    patience_ *= 2;
    stalled = {first_step_ + 1, step, waited, elapsed};
  }
  first_step_ = step;
  waited_before_ = waited_ms;
  elapsed_before_ = elapsed_ms;
  return stalled;
}

}  // namespace tg
