#pragma once
// Log lines are bare (no time stamp, no level), so that scripts that parse the logs of the Python
// programs can parse ours. Standard output and the log file get the same lines; warnings and errors
// go to standard error. Each message is one line, made safe for terminals by escaped(), since
// paths, settings and file contents may hold anything. If one destination can no longer be written
// (a full disk, or a closed pipe while SIGPIPE is ignored), one warning says so and the other is
// still written.
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace tg {

// Rank 0 prints to standard output and, after open_log_file(), to the log file; the other ranks
// print warnings and errors only. Call before any other thread logs.
void set_log_rank(int rank);
// Truncates `path` and writes `header` (resolved settings, versions), which only the file gets,
// then the lines logged so far. The file may be renamed while it is open. Throws
// Error(cannot_create).
void open_log_file(const std::string& path, std::string_view header);
// Appends to the log file `path`, without a header.
void continue_log_file(const std::string& path);

void log_line(std::string_view text);
// Logs a note about the input, from rank 0 only: to standard error, since standard output may be a
// command's result, and to the log file.
void note_line(std::string_view text);
void warn_line(std::string_view text);
// Warns from rank 0 only, about what every rank finds.
void warn_line_once(std::string_view text);
// Logs `ERROR exit=65 rank=1 step=12: what`, without `step` before the first step. Also writes
// torchrun's error file and notifies the listener (process_exit.h).
void error_line(int exit_code, std::string_view what);
// Sets the step that error_line() reports; negative: none.
void set_log_step(long step);
// Shows a line on the terminal that the next one overwrites; does nothing unless standard output is
// a terminal. An empty line erases.
void progress_line(std::string_view text);
// Disables progress lines: launchers give ranks a terminal but redirect their output to files.
void turn_off_progress();

template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_line(fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_note(fmt::format_string<Args...> format, Args&&... args) {
  note_line(fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_warn(fmt::format_string<Args...> format, Args&&... args) {
  warn_line(fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_warn_once(fmt::format_string<Args...> format, Args&&... args) {
  warn_line_once(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace tg
