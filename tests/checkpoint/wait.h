#pragma once
// Waits for other threads.
#include <chrono>
#include <functional>
#include <thread>

namespace tg::test {

// Returns whether the event happens within a time that is long for any machine.
inline bool eventually(const std::function<bool()>& event,
                       std::chrono::milliseconds within = std::chrono::seconds(60)) {
  const auto until = std::chrono::steady_clock::now() + within;
  while (!event()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace tg::test
