#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace tg {

// When a wait is logged: `first` is longer than a normal start takes.
struct NoticeTimes {
  std::chrono::milliseconds first{3000}, again{30000};
};

// Prints the line that `text` returns as a warning at these times, on a thread of its own, until
// destroyed. An empty line is not printed.
class WaitNotice {
 public:
  WaitNotice(NoticeTimes times, std::function<std::string()> text);

 private:
  std::jthread thread_;
};

// Returns "rank 2" or "ranks 1-3, 5" for ascending ranks.
std::string ranks_text(const std::vector<int>& ranks);

}  // namespace tg
