#include "train/pace.h"

#include <algorithm>
#include <cassert>

namespace tg {

namespace {

double step_ms(std::int64_t steps, double elapsed_ms) {
  return elapsed_ms / static_cast<double>(steps);
}

}  // namespace

void Pace::ended(std::int64_t steps, double elapsed_ms) {
  if (!ends_.empty() && steps == ends_.back().steps) return;  // repeated after a wait
  assert(ends_.empty() || steps > ends_.back().steps);
  ends_.push_back({steps, elapsed_ms});
  if (ends_.size() > kRecent) ends_.pop_front();
  find_longest();
}

void Pace::find_longest() {
  longest_ms_ = 0;
  for (std::size_t i = 1; i < ends_.size(); ++i) {
    const End &from = ends_[i - 1], &to = ends_[i];
    longest_ms_ =
        std::max(longest_ms_, step_ms(to.steps - from.steps, to.elapsed_ms - from.elapsed_ms));
  }
}

double Pace::expected_ms(std::int64_t steps) const {
  assert(known());
  const End &first = ends_.front(), &last = ends_.back();
  const double mean = step_ms(last.steps - first.steps, last.elapsed_ms - first.elapsed_ms);
  return last.elapsed_ms + static_cast<double>(steps - last.steps) * mean;
}

}  // namespace tg
