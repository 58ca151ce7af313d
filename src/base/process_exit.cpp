#include "base/process_exit.h"

#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace tg {

namespace {

struct Listener {
  std::mutex mutex;  // held during the call
  std::function<void(const ProcessExit&)> listener;
};

// Never destroyed: the call may still run after main() returns.
Listener& current() {
  static auto& listener = *new Listener;
  return listener;
}

}  // namespace

void listen_to_exit(std::function<void(const ProcessExit&)> listener) {
  const std::lock_guard lock(current().mutex);
  current().listener = std::move(listener);
}

void notify_exit(ProcessExit ending, std::chrono::seconds limit) {
  run_at_most(limit, [ending = std::move(ending)] {
    const std::lock_guard lock(current().mutex);
    if (const auto listener = std::exchange(current().listener, nullptr)) listener(ending);
  });
}

void run_at_most(std::chrono::seconds limit, const std::function<void()>& work) {
  try {
    const auto task = std::make_shared<std::packaged_task<void()>>(work);
    const auto done = task->get_future();
    std::thread([task] { (*task)(); }).detach();
    done.wait_for(limit);
  } catch (...) {  // no thread, or no memory for one
    try {
      work();
    } catch (...) {
    }
  }
}

}  // namespace tg
