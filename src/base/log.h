#pragma once
// Log lines are bare (no time stamp, no level): scripts that parse the Python programs' logs parse
// ours. Standard output and the log file get the same lines; warnings and errors go to standard
// error. What is logged is one line, in which escaped() escapes what a terminal would obey: paths,
// settings and text of files may hold anything. If one of them can no longer be written (a full
// disk, or a closed pipe where the program ignores SIGPIPE), one warning says so and the others are
// still written.
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace tg {

// Rank 0 prints to standard output and, once open_log_file was called, to that file; the other
// ranks print warnings and errors alone. Call before any other thread logs.
void set_log_rank(int rank);
// Truncates `path`, writes `header` (resolved settings, versions) to it alone, then the lines
// logged so far. The file may be renamed while it is open. Errors: cannot_create.
void open_log_file(const std::string& path, std::string_view header);
// The same without a header, at the end of the file.
void continue_log_file(const std::string& path);

void log_line(std::string_view text);
// About what was read: to standard error, since standard output may be a command's result, and to
// the log file. Rank 0's alone.
void note_line(std::string_view text);
void warn_line(std::string_view text);
// From rank 0 alone: what every rank finds alike.
void warn_line_once(std::string_view text);
// `ERROR exit=65 rank=1 step=12: what`; without step before the first one. Also goes to torchrun's
// error file (error_file.h) and to who listens (ending.h).
void error_line(int exit_code, std::string_view what);
// The step that error_line names from now on; negative: none.
void set_log_step(long step);
// A line on the terminal that the next one overwrites; does nothing unless standard
// output is a terminal. Empty: erases the line.
void progress_line(std::string_view text);
// No progress lines from now on: launchers give ranks a terminal but write their output to files.
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
