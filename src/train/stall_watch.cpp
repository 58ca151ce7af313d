#include "train/stall_watch.h"

#include <fmt/format.h>

namespace tg {

std::optional<std::string> StallWatch::after_step(std::int64_t step, double waited_ms,
                                                  double elapsed_ms) {
  constexpr double long_wait_ms = 1000, window_ms = 10000, share = 0.05;
  const double waited = waited_ms - waited_before_, elapsed = elapsed_ms - elapsed_before_;
  const bool stalls = waited > share * elapsed;
  if (elapsed < patience_ * window_ms && !(stalls && waited >= patience_ * long_wait_ms)) return {};

  std::optional<std::string> warning;
  if (stalls) {
    patience_ *= 2;
    warning = fmt::format(
        "steps {} to {}: training waited for tokens, data_wait_ms:{:.0f} of {:.0f} ({:.1f}%); the "
        "storage of DATA_PATH is slower than training, and TRAIN_PREFETCH=1, a larger "
        "TRAIN_PREFETCH_QUEUE or more TRAIN_PREFETCH_WORKERS hide what is not lasting",
        first_step_ + 1, step, waited, elapsed, 100 * waited / elapsed);
  }
  first_step_ = step;
  waited_before_ = waited_ms;
  elapsed_before_ = elapsed_ms;
  return warning;
}

}  // namespace tg
