#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/strings.h"
#include "commands/commands.h"
#include "commands/print.h"
#include "commands/run_path.h"
#include "config/parse.h"
#include "files/atomic_file.h"
#include "report/http_server.h"
#include "report/page.h"
#include "report/run_follower.h"
#include "report/served_runs.h"
#include "report/statistics.h"

namespace tg {
namespace {

constexpr const char* help =
    R"(train_gpt report: the curves of runs in a browser, as one HTML file or while they train.

  train_gpt report RUN... --out FILE
  train_gpt report [RUN...] --serve [PORT]
  train_gpt report --stats RUN... [--against RUN...] [--below LOSS]

RUN is a run's folder, such as logs/RUN_ID, or the metrics.jsonl of one (metrics.1.jsonl of an
earlier run in the same folder); config.json is beside it. FILE shows losses, scores, learning
rate, gradient norm, throughput, the times of the phases, sizes, settings and warnings; several
runs share the plots, with the settings in which they differ and their time to a loss.
It needs a browser and no network.

With --serve the same page follows the runs while they train. RUN may then be a folder of runs'
folders, in which new runs show up, too; none: logs. Prints the address of the page, which
only this machine can reach and only who knows the address can read. Ctrl-C ends it.

With --stats prints mean, deviation (of a sample), least and greatest of the runs' last
validation, final scores and training time. --against: of those runs, too, with the
difference of the means and Welch's two-sided p-value. --below: Student's one-sided p-value
that the mean is below LOSS.

)";

struct Arguments {
  std::vector<std::string> runs;
  std::string out;
  std::optional<int> port;
  bool stats = false;
  std::vector<std::string> against;
  std::optional<double> below;
};

bool is_number(const std::string& word) {
  return !word.empty() && std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; });
}

int port_of(const std::string& word) {
  const bool good = is_number(word) && word.size() <= 5 && std::stoi(word) <= 65535;
  REQUIRE(good, ExitCode::usage,
          "train_gpt report: --serve: expected a port, 0 to 65535, found '{}'", word);
  return std::stoi(word);
}

double bound_of(const std::string& word) {
  const auto bound = parse_number<double>(word);
  REQUIRE(bound && std::isfinite(*bound), ExitCode::usage,
          "train_gpt report: --below: expected a number, found '{}'", word);
  return *bound;
}

Arguments read_words(const std::vector<std::string>& words) {
  constexpr std::string_view kOut = "--out=", kServe = "--serve=";
  Arguments arguments;
  auto* runs = &arguments.runs;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto& word = words[i];
    const bool has_next = i + 1 < words.size();
    if (word == "--out" && has_next) {
      arguments.out = words[++i];
    } else if (word.starts_with(kOut)) {
      arguments.out = word.substr(kOut.size());
    } else if (word == "--serve") {
      arguments.port = has_next && is_number(words[i + 1]) ? port_of(words[++i]) : 0;
    } else if (word.starts_with(kServe)) {
      arguments.port = port_of(word.substr(kServe.size()));
    } else if (word == "--stats") {
      arguments.stats = true;
    } else if (word == "--against") {
      runs = &arguments.against;
    } else if (word == "--below" && has_next) {
      arguments.below = bound_of(words[++i]);
    } else {
      REQUIRE(
          !word.starts_with('-'), ExitCode::usage,
          "train_gpt report: expected RUN... --out FILE, --serve [PORT] or --stats, found '{}'; "
          "see train_gpt report --help",
          word);
      runs->push_back(word);
    }
  }
  return arguments;
}

Arguments parse_arguments(const std::vector<std::string>& words) {
  auto arguments = read_words(words);
  const auto require = [](bool good, std::string_view what) {
    REQUIRE(good, ExitCode::usage, "train_gpt report: {}; see train_gpt report --help", what);
  };
  if (arguments.stats) {
    require(!arguments.port && arguments.out.empty(),
            "expected --stats, --out FILE or --serve [PORT], found two of them");
    require(!arguments.runs.empty(), "--stats: expected a RUN, found none");
    return arguments;
  }
  require(arguments.against.empty() && !arguments.below,
          "--against and --below: expected --stats with them");
  REQUIRE(arguments.runs.size() <= ServedRuns::kMaxRuns, ExitCode::usage,
          "train_gpt report: expected at most {} runs, found {}", ServedRuns::kMaxRuns,
          arguments.runs.size());
  if (arguments.port) {
    require(arguments.out.empty(), "expected --out FILE or --serve [PORT], found both");
    if (arguments.runs.empty()) arguments.runs = {"logs"};  // parent of the default OUTPUT_DIR
    return arguments;
  }
  require(!arguments.runs.empty(), "expected a RUN, found none");
  require(!arguments.out.empty(), "expected --out FILE or --serve [PORT], found none");
  return arguments;
}

void write_report(const Arguments& arguments) {
  nlohmann::json runs = nlohmann::json::array();
  for (const auto& run : arguments.runs) runs.push_back(read_run(run_path(run)));
  tell_apart(runs);
  const auto page = report_page(runs);
  write_file_atomically(arguments.out, page);
  print_text(fmt::format("{}: {} run{}, {} bytes\n", arguments.out, runs.size(),
                         runs.size() == 1 ? "" : "s", page.size()));
}

std::vector<std::string> metrics_of(const std::vector<std::string>& runs) {
  std::vector<std::string> paths;
  for (const auto& run : runs) paths.push_back(run_path(run).metrics);
  return paths;
}

std::vector<RunPath> runs_in_all(const std::vector<std::string>& folders) {
  std::vector<RunPath> all;
  for (const auto& folder : folders) {
    for (const auto& run : runs_in(folder)) {
      if (std::ranges::find(all, run.metrics, &RunPath::metrics) == all.end()) all.push_back(run);
    }
  }
  return all;
}

void serve_report(const Arguments& arguments) {
  for (const auto& run : arguments.runs) run_path(run);  // throws if a folder is missing at start
  // A folder that disappears later is skipped.
  ServedRuns runs([&] {
    auto there = arguments.runs;
    std::erase_if(there, [](const std::string& run) {
      std::error_code ignored;
      return !std::filesystem::exists(run, ignored);
    });
    return runs_in_all(there);
  });
  HttpServer server(*arguments.port, [&](const std::string& path, std::uint64_t since) {
    if (path == "/") return HttpReply{"text/html; charset=utf-8", runs.page()};
    if (path == "/changes") return HttpReply{"application/json", runs.changes(since)};
    return HttpReply{};
  });
  print_text(server.address() + "\n");
  server.run();
}

}  // namespace

void report_command(int argc, const char* const* argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words == std::vector<std::string>{"--help"} || words == std::vector<std::string>{"-h"}) {
    return print_text(help + std::string("Options\n") +
                      options_text(default_entries<ReportOptions>()));
  }
  const auto arguments = parse_arguments(words);
  if (arguments.stats) {
    print_text(seed_study_text({.runs = metrics_of(arguments.runs),
                                .against = metrics_of(arguments.against),
                                .below = arguments.below}));
    return;
  }
  arguments.port ? serve_report(arguments) : write_report(arguments);
}

}  // namespace tg
