#pragma once
// For tests of threads that wait for each other.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace tg::test {

// Returns when that thread of this process sleeps in a wait that another thread must end, or has
// exited.
inline void wait_until_asleep(::pid_t thread) {
  std::string line;
  do {
    std::this_thread::yield();
    std::ifstream file(fmt::format("/proc/self/task/{}/stat", thread));
    if (!std::getline(file, line)) return;
  } while (line.at(line.rfind(')') + 2) != 'S');  // "12 (name) S ..."
}

inline void wait_until_other_threads_sleep() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    const auto id = static_cast<::pid_t>(std::stol(task.path().filename()));
    if (id != ::gettid()) wait_until_asleep(id);
  }
}

}  // namespace tg::test
