#pragma once
// How the process ends by an error: who is told of it, for the file by which others follow what it
// does, and how long the end may take.
#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace tg {

struct Ending {
  int exit_code = 0;
  std::optional<long> step = {};  // as error_line() names it
  std::string what = {};          // the message
};

// error_line() calls `listener` with the first error, on another thread; null: nobody. When this
// returns, an earlier listener is not called any more.
void listen_to_ending(std::function<void(const Ending&)> listener);

// Calls the listener, if there is one, and waits for it at most so long: storage may be what
// failed. Only the first call does: later errors are consequences of the first.
void tell_ending(Ending ending, std::chrono::seconds limit = std::chrono::seconds(2));

// Does the work on a thread of its own and waits for it, at most so long; it may then go on. For
// the end of a process, where work that blocks (storage may be what failed) must not keep it from
// ending. Where no thread can be started, this one does the work. Exceptions of the work are lost.
void run_at_most(std::chrono::seconds limit, const std::function<void()>& work);

}  // namespace tg
