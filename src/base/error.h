#pragma once
// Two kinds of failure. An error that a user can cause throws Error: an exit code and one line that
// says what is wrong, what was expected and found, and what to do. A bug of ours fails an assert.
#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace tg {

// Exit codes, after sysexits.h.
enum class ExitCode : int {
  ok = 0,
  usage = 64,          // a flag, setting or variable that makes no sense
  bad_data = 65,       // a file that exists but is damaged
  missing_input = 66,  // a file that does not exist
  unavailable = 69,    // a peer or the network
  internal = 70,       // non-finite numbers, or our own mistake
  memory = 71,         // host or device memory exhausted
  cannot_create = 73,  // an output that cannot be created
  io = 74,             // reading or writing failed midway
  stopped = 75,        // stopped early, resumable
  config = 78,         // settings that contradict a file or each other
};

class Error : public std::runtime_error {
 public:
  Error(ExitCode exit_code, const std::string& message)
      : std::runtime_error(message), exit_code_(exit_code) {}
  ExitCode exit_code() const { return exit_code_; }

 private:
  ExitCode exit_code_;
};

template <typename... Args>
[[noreturn]] void fail(ExitCode exit_code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(exit_code, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace tg

// REQUIRE(condition, exit code, format, ...): throws Error unless the condition holds.
#define REQUIRE(condition, exit_code, ...)                \
  do {                                                    \
    if (!(condition)) ::tg::fail(exit_code, __VA_ARGS__); \
  } while (false)
