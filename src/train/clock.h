#pragma once
#include "base/elapsed.h"

namespace tg {

// Time spent training: it stops for validation.
class TrainingClock {
 public:
  void start() { began_ = Clock::now(), running_ = true; }
  void stop() { spent_ms_ = elapsed_ms(), running_ = false; }
  // The time spent so far is this.
  void set(double elapsed_ms) { spent_ms_ = elapsed_ms, began_ = Clock::now(); }
  double elapsed_ms() const { return spent_ms_ + (running_ ? milliseconds_since(began_) : 0.0); }

 private:
  Clock::time_point began_;
  double spent_ms_ = 0;
  bool running_ = false;
};

}  // namespace tg
