#pragma once
// Process exit on an error: writes torchrun's error file, notifies the listener that records it in
// the status file, removes incomplete files, and bounds the time that exiting takes.
#include <chrono>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <string_view>

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

// A rank that fails because it lost a peer exits this long after its error line: launchers report
// the rank that exits first, which should be the one with the original error.
constexpr std::chrono::seconds kLostPeerDelay{3};

// Sets this rank's error file (TORCHELASTIC_ERROR_FILE), which torchrun's report quotes; empty:
// none.
void set_error_file(const std::string& path);

// Writes `what` to the error file in torchrun's format. Only the first call writes: later errors
// are consequences of the first.
void write_error_file(int exit_code, std::string_view what);

// Removes a file, such as an incomplete one, at the end of its lifetime. The destructor unlinks the
// file; since a fatal error runs no destructors (program.h), run_program() also unlinks it before
// the process exits.
class RemoveOnExit {
 public:
  explicit RemoveOnExit(std::string path);
  ~RemoveOnExit();
  RemoveOnExit(const RemoveOnExit&) = delete;
  RemoveOnExit& operator=(const RemoveOnExit&) = delete;
  // Leaves the file in place.
  void keep();

 private:
  bool kept_ = false;
  std::list<std::string>::iterator listed_;
};

// Unlinks the files of all live RemoveOnExit objects.
void remove_files_on_exit();

}  // namespace tg
