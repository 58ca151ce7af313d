#include "commands/report.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "commands/print.h"
#include "commands/run_path.h"
#include "config/parse.h"
#include "report/page.h"
#include "store/atomic_file.h"

namespace tg {
namespace {

constexpr const char* help =
    "train_gpt report: writes one HTML file with the curves of runs.\n"
    "\n"
    "  train_gpt report RUN... --out FILE\n"
    "\n"
    "RUN is a run's folder, such as logs/RUN_ID, or the metrics.jsonl of one (metrics.1.jsonl of "
    "an\n"
    "earlier run in the same folder); config.json is beside it. FILE shows losses, scores, "
    "learning\n"
    "rate, gradient norm, throughput, the times of the phases, sizes, settings and warnings; "
    "several\n"
    "runs in the same pictures, with the settings in which they differ and their speed to a loss.\n"
    "It needs a browser and no network.\n"
    "\n";

constexpr std::size_t kMostRuns = 32;

struct ReportOptions {
  std::string out;

  template <class V>
  void visit(V&& v) {
    v("out", out, anything, "the HTML file; needed");
  }
};

struct Arguments {
  std::vector<std::string> runs;
  std::string out;
};

Arguments parse_arguments(const std::vector<std::string>& words) {
  constexpr std::string_view kOut = "--out=";
  Arguments arguments;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--out" && i + 1 < words.size()) {
      arguments.out = words[++i];
    } else if (words[i].starts_with(kOut)) {
      arguments.out = words[i].substr(kOut.size());
    } else {
      REQUIRE(!words[i].starts_with('-'), ExitCode::usage,
              "train_gpt report: expected RUN... --out FILE, found '{}'; see train_gpt report "
              "--help",
              words[i]);
      arguments.runs.push_back(words[i]);
    }
  }
  REQUIRE(!arguments.runs.empty(), ExitCode::usage,
          "train_gpt report: expected a RUN, found none; see train_gpt report --help");
  REQUIRE(arguments.runs.size() <= kMostRuns, ExitCode::usage,
          "train_gpt report: expected at most {} runs, found {}", kMostRuns, arguments.runs.size());
  REQUIRE(!arguments.out.empty(), ExitCode::usage,
          "train_gpt report: expected --out FILE, found none; see train_gpt report --help");
  return arguments;
}

// Runs of the same RUN_ID are called by their files.
void tell_apart(nlohmann::json& runs) {
  std::map<std::string, int> count;
  for (const auto& run : runs) ++count[run["name"]];
  for (auto& run : runs) {
    if (count[run["name"]] > 1) run["name"] = run["path"];
  }
}

}  // namespace

std::vector<Entry> report_options() {
  static ReportOptions defaults;
  return entries_of(defaults);
}

void report_command(int argc, const char* const* argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words == std::vector<std::string>{"--help"} || words == std::vector<std::string>{"-h"}) {
    return print_text(help + std::string("Options\n") + options_text(report_options()));
  }
  const auto arguments = parse_arguments(words);
  nlohmann::json runs = nlohmann::json::array();
  for (const auto& run : arguments.runs) runs.push_back(read_run(run_path(run)));
  tell_apart(runs);
  const auto page = report_page(runs);
  write_file_atomically(arguments.out, page);
  print_text(fmt::format("{}: {} run{}, {} bytes\n", arguments.out, runs.size(),
                         runs.size() == 1 ? "" : "s", page.size()));
}

}  // namespace tg
