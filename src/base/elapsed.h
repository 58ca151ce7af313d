#pragma once
#include <fmt/format.h>

#include <chrono>
#include <string>
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

// Returns hours, minutes and seconds: 1:02:03.
inline std::string clock_text(double seconds) {
  const auto whole = static_cast<long>(seconds);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
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
