#include "base/ending.h"

#include <mutex>
#include <utility>

#include "base/time_limit.h"

namespace tg {

namespace {

struct Listener {
  std::mutex mutex;  // held during the call
  std::function<void(const Ending&)> listener;
};

// Never destroyed: a call may outlive main().
Listener& current() {
  static auto& listener = *new Listener;
  return listener;
}

}  // namespace

void listen_to_ending(std::function<void(const Ending&)> listener) {
  const std::lock_guard lock(current().mutex);
  current().listener = std::move(listener);
}

void tell_ending(Ending ending, std::chrono::seconds limit) {
  run_at_most(limit, [ending = std::move(ending)] {
    const std::lock_guard lock(current().mutex);
    if (const auto listener = std::exchange(current().listener, nullptr)) listener(ending);
  });
}

}  // namespace tg
