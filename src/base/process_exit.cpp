#include "base/process_exit.h"

#include <unistd.h>

#include <atomic>
#include <fstream>
#include <future>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/error.h"

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

std::string error_file;
std::atomic<bool> written = false;

struct Listed {
  std::mutex mutex;
  std::list<std::string> paths;
};

Listed& listed() {
  static Listed all;
  return all;
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

void set_error_file(const std::string& path) {
  error_file = path;
  written = false;
}

void write_error_file(int exit_code, std::string_view what) {
  using nlohmann::json;
  using std::chrono::system_clock;
  if (error_file.empty() || written.exchange(true)) return;
  auto end = system_clock::now();
  // torchrun reports the rank with the earliest timestamp as the root cause.
  if (exit_code == static_cast<int>(ExitCode::unavailable)) end += kLostPeerDelay;
  const auto timestamp = std::to_string(system_clock::to_time_t(end));
  // No "py_callstack": torchrun would show it instead of the message, even if empty.
  const json report = {{"message", {{"message", what}, {"extraInfo", {{"timestamp", timestamp}}}}}};
  // A path in the message may be invalid UTF-8. A failure to write the file is ignored.
  std::ofstream(error_file) << report.dump(-1, ' ', false, json::error_handler_t::replace);
}

RemoveOnExit::RemoveOnExit(std::string path) {
  const std::lock_guard lock(listed().mutex);
  listed_ = listed().paths.insert(listed().paths.end(), std::move(path));
}

RemoveOnExit::~RemoveOnExit() {
  if (kept_) return;
  ::unlink(listed_->c_str());
  keep();
}

void RemoveOnExit::keep() {
  const std::lock_guard lock(listed().mutex);
  listed().paths.erase(listed_);
  kept_ = true;
}

void remove_files_on_exit() {
  const auto paths = [] {
    const std::lock_guard lock(listed().mutex);
    return listed().paths;
  }();
  for (const auto& path : paths) ::unlink(path.c_str());
}

}  // namespace tg
