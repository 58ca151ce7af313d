#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "base/elapsed.h"
#include "base/error.h"
#include "base/strings.h"
#include "commands/commands.h"
#include "commands/print.h"
#include "commands/run_path.h"
#include "report/run_follower.h"
#include "report/terminal_view.h"

namespace tg {
namespace {

constexpr const char* help =
    "train_gpt watch: a run in this terminal, while it trains.\n"
    "\n"
    "  train_gpt watch RUN\n"
    "\n"
    "RUN is a run's folder, such as logs/RUN_ID, or the metrics.jsonl of one (metrics.1.jsonl\n"
    "of an earlier run in the same folder). Shows the state of the run, or where and why it\n"
    "stopped; step, tokens a second, time left, the smoothed loss as a curve, validation, the\n"
    "phases of a step (with TRAINING_TIMING_BREAKDOWN) and the last warning. Refreshes every\n"
    "second, also while a stopped run may go on, until the run has ended or Ctrl-C is pressed,\n"
    "which does not affect the run. Prints once if standard output is not a terminal.\n";

struct TerminalSize {
  std::size_t columns = 100, rows = 30;  // defaults without a terminal
};

TerminalSize terminal_size() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return {};
  return {size.ws_col, size.ws_row};
}

// Returns control sequences and text that redraw the screen from the top left corner and erase the
// rest.
std::string as_screen(const std::string& text) {
  return "\x1b[H" + replaced(text, "\n", "\x1b[K\n") + "\x1b[J";
}

std::string view(const nlohmann::json& record) {
  const auto [columns, rows] = terminal_size();
  return terminal_view(record, columns, rows);
}

// Shows the run until it has ended.
void watch_run(const RunPath& path) {
  RunFollower run(path);
  for (;;) {
    const auto began = Clock::now();
    run.follow();
    if (run.error()) run.require_begun();
    print_screen(
        as_screen(run.begun() ? view(run.record()) : path.metrics + ": has not begun yet\n"));
    if (run.begun() && run.status()["kind"] == "ended") return;
    // Uses at most a tenth of a core, however long the run is.
    const double pause_ms = std::max(1000.0, 9 * milliseconds_since(began));
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(pause_ms));
  }
}

}  // namespace

void watch_command(int argc, const char* const* argv) {
  const std::string run = argc == 2 ? argv[1] : "";
  if (run == "--help" || run == "-h") return print_text(help);
  REQUIRE(argc == 2 && !run.starts_with('-'), ExitCode::usage,
          "train_gpt watch: expected one RUN, found {}; see train_gpt watch --help",
          argc == 2 ? "'" + run + "'" : std::to_string(argc - 1));
  const auto path = run_path(run);
  if (::isatty(STDOUT_FILENO) == 1) {
    watch_run(path);
  } else {
    print_text(view(read_run(path)));
  }
}

}  // namespace tg
