#pragma once
#include <cstdint>
#include <deque>

namespace tg {

// Training time against steps, learned from the steps that have ended: what the clock will read
// when steps that are still under way have ended.
class Pace {
 public:
  // The clock read `elapsed_ms` when `steps` steps had ended. Calls come in the order of steps.
  void ended(std::int64_t steps, double elapsed_ms);

  // Whether enough steps have ended to expect anything of the next ones.
  bool known() const { return ends_.size() >= kFewest; }
  // Milliseconds on the clock when `steps` steps will have ended, by the mean of the recent ones.
  // Wants known().
  double expected_ms(std::int64_t steps) const;
  // The longest of the recent steps: how far an expectation may be off. Wants known().
  double tolerance_ms() const { return longest_ms_; }

 private:
  static constexpr std::size_t kFewest = 4, kRecent = 9;
  struct End {
    std::int64_t steps;
    double elapsed_ms;
  };
  std::deque<End> ends_;
  double longest_ms_ = 0;
};

}  // namespace tg
