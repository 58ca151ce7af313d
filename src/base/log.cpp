#include "base/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/escaped.h"
#include "base/process_exit.h"

namespace tg {
namespace {

std::shared_ptr<spdlog::logger> make_logger(const char* name, spdlog::sink_ptr sink) {
  auto logger = std::make_shared<spdlog::logger>(name, std::move(sink));
  logger->set_pattern("%v");
  logger->flush_on(spdlog::level::info);
  return logger;
}

struct Log {
  std::shared_ptr<spdlog::logger> out =
      make_logger("out", std::make_shared<spdlog::sinks::stdout_sink_mt>());
  std::shared_ptr<spdlog::logger> err =
      make_logger("err", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  std::mutex file_mutex;
  std::shared_ptr<spdlog::logger> file;
  std::vector<std::string> before_file;  // lines logged before the file is opened
  std::atomic<bool> out_lost = false, file_lost = false;
  int rank = 0;
  std::atomic<long> step{-1};
  bool terminal = isatty(STDOUT_FILENO) == 1;
  std::mutex progress_mutex;
  bool progress_shown = false;
};

Log& log_state() {
  static Log state;
  return state;
}

std::string as_line(std::string_view text) {
  return escaped(text, text.size());
}

void open_file(const std::string& path, bool truncate, std::optional<std::string_view> header) {
  Log& state = log_state();
  if (state.rank != 0) return;
  const std::lock_guard lock(state.file_mutex);
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path, truncate);
    state.file = make_logger("file", std::move(sink));
  } catch (const spdlog::spdlog_ex& error) {
    fail(ExitCode::cannot_create, "cannot create the log file {} ({}); choose another OUTPUT_DIR",
         path, error.what());
  }
  // spdlog's default handler would report once a second.
  state.file->set_error_handler([&state](const std::string& what) {
    if (!state.file_lost.exchange(true))
      warn_line(fmt::format("lines of the log file are lost ({}); the run continues", what));
  });
  if (header) state.file->info(*header);
  for (const auto& line : state.before_file) state.file->info(line);
  state.before_file.clear();
}

// Writes `text` as a line to the file, or keeps it until the file is open. Returns the line.
// Written before standard output, so that the file has every line of standard output even if the
// run is killed.
std::string line_in_file(std::string_view text) {
  Log& state = log_state();
  progress_line("");
  auto line = as_line(text);
  const std::lock_guard lock(state.file_mutex);
  if (state.file) {
    state.file->info(line);
  } else {
    state.before_file.push_back(line);
  }
  return line;
}

}  // namespace

void set_log_rank(int rank) {
  log_state().rank = rank;
}

void set_log_step(long step) {
  log_state().step = step;
}

void open_log_file(const std::string& path, std::string_view header) {
  open_file(path, /*truncate=*/true, header);
}

void continue_log_file(const std::string& path) {
  open_file(path, /*truncate=*/false, {});
}

void log_line(std::string_view text) {
  Log& state = log_state();
  if (state.rank != 0) return;
  const auto line = line_in_file(text);
  if (!state.out_lost) {
    state.out->info(line);
    if (std::ferror(stdout) != 0 && !state.out_lost.exchange(true)) {
      warn_line(fmt::format(
          "standard output cannot be written ({}); the run continues with the log file only",
          std::strerror(errno)));
    }
  }
}

void note_line(std::string_view text) {
  Log& state = log_state();
  if (state.rank == 0) state.err->info(line_in_file(text));
}

void warn_line(std::string_view text) {
  Log& state = log_state();
  progress_line("");
  state.err->info("WARN rank={}: {}", state.rank, as_line(text));
}

void warn_line_once(std::string_view text) {
  if (log_state().rank == 0) warn_line(text);
}

void error_line(int exit_code, std::string_view what) {
  Log& state = log_state();
  progress_line("");
  const long step = state.step;
  const std::string where = step < 0 ? "" : fmt::format(" step={}", step);
  const auto line =
      fmt::format("ERROR exit={} rank={}{}: {}", exit_code, state.rank, where, as_line(what));
  state.err->info(line);
  write_error_file(exit_code, line);
  notify_exit({exit_code, step < 0 ? std::nullopt : std::optional(step), std::string(what)});
}

void progress_line(std::string_view text) {
  Log& state = log_state();
  if (state.rank != 0 || !state.terminal) return;
  const std::lock_guard lock(state.progress_mutex);
  if (text.empty() && !state.progress_shown) return;
  const std::string line = fmt::format("\r\x1b[K{}", as_line(text));
  [[maybe_unused]] const auto written = write(STDOUT_FILENO, line.data(), line.size());
  state.progress_shown = !text.empty();
}

void turn_off_progress() {
  log_state().terminal = false;
}

}  // namespace tg
