#pragma once
#include <cstdint>
#include <deque>
#include <string>

namespace tg {

// Estimates the training time at the end of steps that are still under way, from the steps that
// have ended.
class Pace {
 public:
  // The clock read `elapsed_ms` when `steps` steps had ended. Calls come in the order of steps.
  void ended(std::int64_t steps, double elapsed_ms);

  // Steps take another time from now on.
  void reset() { ends_.clear(); }

  // Whether enough steps have ended for an estimate.
  bool known() const { return ends_.size() >= kFewest; }
  // Milliseconds on the clock when `steps` steps will have ended, by the mean of the recent ones.
  // Wants known().
  double expected_ms(std::int64_t steps) const;
  // The longest of the recent steps, as a bound on the estimate's error. Wants known().
  double tolerance_ms() const { return longest_ms_; }

  template <class Visit>
  void visit_state(Visit&& visit) {
    auto count = static_cast<std::int64_t>(ends_.size());
    visit("pace.count", count);
    ends_.resize(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < ends_.size(); ++i) {
      visit("pace." + std::to_string(i) + ".steps", ends_[i].steps);
      visit("pace." + std::to_string(i) + ".elapsed_ms", ends_[i].elapsed_ms);
    }
    find_longest();
  }

 private:
  static constexpr std::size_t kFewest = 4, kRecent = 9;
  struct End {
    std::int64_t steps = 0;
    double elapsed_ms = 0;
  };
  void find_longest();

  std::deque<End> ends_;
  double longest_ms_ = 0;
};

}  // namespace tg
