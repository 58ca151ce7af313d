#pragma once
#include <chrono>
#include <utility>

namespace tg {

using Clock = std::chrono::steady_clock;

// Times as numbers, in log lines, files and sums.
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

// The time since the last call, or since it was made.
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
