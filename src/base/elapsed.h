#pragma once
#include <chrono>
#include <utility>

namespace tg {

using Clock = std::chrono::steady_clock;

// Durations as plain numbers, for log lines, files and arithmetic.
inline double seconds(std::chrono::duration<double> time) {
  return time.count();
}
inline double milliseconds(std::chrono::duration<double, std::milli> time) {
  return time.count();
}
inline double seconds_since(Clock::time_point start) {
  return seconds(Clock::now() - start);
}
inline double milliseconds_since(Clock::time_point start) {
  return milliseconds(Clock::now() - start);
}

// Returns the time since its last call or, at the first call, since its construction.
class Lap {
 public:
  Clock::duration operator()() {
    const auto now = Clock::now();
    return now - std::exchange(began_, now);
  }

 private:
  Clock::time_point began_ = Clock::now();
};

}  // namespace tg
