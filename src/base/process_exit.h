#pragma once
// Process exit on an error: notifies the listener that records it in the status file, and bounds
// the time that exiting takes.
#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace tg {

struct ProcessExit {
  int exit_code = 0;
  std::optional<long> step = {};  // as error_line() reports it
  std::string what = {};          // the message
};

// error_line() calls `listener` with the first error, on another thread; null removes the listener.
// Once this returns, the previous listener is no longer called.
void listen_to_exit(std::function<void(const ProcessExit&)> listener);

// Calls the listener, if there is one, and waits for it at most `limit`, since storage may be what
// failed. Only the first call does: later errors are consequences of the first.
void notify_exit(ProcessExit ending, std::chrono::seconds limit = std::chrono::seconds(2));

// Runs `work` on a thread of its own and waits for it at most `limit`; the work may then continue.
// For the exit of a process, which blocking work must not prevent (storage may be what failed).
// Runs it on the calling thread if no thread can be started. Exceptions of the work are dropped.
void run_at_most(std::chrono::seconds limit, const std::function<void()>& work);

}  // namespace tg
