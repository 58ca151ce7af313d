#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace tg {

// When a wait is logged: later than ranks of a normal start take, and early enough to answer the
// user's question.
struct NoticeTimes {
  std::chrono::milliseconds first{3000}, again{30000};
};

// While it lives, a thread prints the line of `text` as a warning at these times. `text` is called
// at each of them, on that thread; an empty line is not printed.
class WaitNotice {
 public:
  WaitNotice(NoticeTimes times, std::function<std::string()> text);

 private:
  std::jthread thread_;
};

// "rank 2", "ranks 1-3, 5"; of ascending ranks.
std::string ranks_text(const std::vector<int>& ranks);

}  // namespace tg
