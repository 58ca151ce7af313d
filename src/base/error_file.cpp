#include "base/error_file.h"

#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace tg {

namespace {

std::string error_file;
std::atomic<bool> written = false;

}  // namespace

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

}  // namespace tg
