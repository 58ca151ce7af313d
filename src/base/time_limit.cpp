#include "base/time_limit.h"

#include <future>
#include <memory>
#include <thread>

namespace tg {

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
