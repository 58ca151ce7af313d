#pragma once
#include <chrono>

namespace tg {

// Time spent training: it stops for validation.
class TrainingClock {
 public:
  void start() { began_ = Steady::now(), running_ = true; }
  void stop() { spent_ms_ = elapsed_ms(), running_ = false; }
  // The time spent so far is this.
  void set(double elapsed_ms) { spent_ms_ = elapsed_ms, began_ = Steady::now(); }
  double elapsed_ms() const {
    return spent_ms_ + (running_ ? Milliseconds(Steady::now() - began_).count() : 0.0);
  }

 private:
  using Steady = std::chrono::steady_clock;
  using Milliseconds = std::chrono::duration<double, std::milli>;
  Steady::time_point began_;
  double spent_ms_ = 0;
  bool running_ = false;
};

}  // namespace tg
