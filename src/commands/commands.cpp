#include "commands/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/error_file.h"
#include "commands/completion.h"
#include "config/entry.h"
#include "config/launch.h"
#include "config/parse.h"
#include "config/suggest.h"

namespace tg {
namespace {

struct Command {
  std::string_view name;
  const char* summary;  // line in --help's list
  void (*run)(int argc, const char* const* argv);
  std::vector<Entry> (*options)() = nullptr;  // the command's flags
  bool takes_settings = false;
};

void help_command(int argc, const char* const* argv);
void completion_command(int argc, const char* const* argv);

constexpr Command commands[] = {
    {"train", "trains a model; the default", train_command, nullptr, true},
    {"eval", "prints every score of a trained model", eval_command, default_entries<EvalOptions>,
     true},
    {"quantize", "writes the quantised artifact of a trained model", quantize_command,
     default_entries<QuantizeOptions>, true},
    {"sample", "continues a text with a trained model", sample_command,
     default_entries<SampleOptions>, true},
    {"inspect", "prints the tensors of a weights file and the settings of its run",
     inspect_command},
    {"export", "writes a trained model for transformers", export_command,
     default_entries<ExportOptions>, true},
    {"report", "shows curves of runs in a browser: one HTML file, or a live page", report_command,
     default_entries<ReportOptions>},
    {"watch", "shows a run in this terminal, while it trains", watch_command},
    {"completion", "prints a completion script for bash", completion_command},
    {"help", "prints the help of a command: train_gpt help COMMAND", help_command},
};

const Command& find_command(std::string_view name) {
  const auto* const found = std::ranges::find(commands, name, &Command::name);
  if (found != std::end(commands)) return *found;
  std::vector<std::string> known;
  for (const auto& command : commands) known.emplace_back(command.name);
  fail(ExitCode::usage, "unknown command '{}'; did you mean {}? train_gpt --help lists them",
       name.substr(0, 200), nearest_name(name, known));
}

// Prints a page of settings; if `page` is empty, the commands and the most common settings.
void print_overview(std::string_view page) {
  if (!page.empty()) {
    fmt::print("{}", help_text(page));
    return;
  }
  fmt::print("train_gpt [COMMAND] [ARGUMENT]...\n\nCommands\n");
  for (const auto& command : commands) fmt::print("  {:10}  {}\n", command.name, command.summary);
  fmt::print("\n{}", help_text());
}

bool asks_for_help(std::string_view word) {
  return word == "--help" || word == "-h";
}

void help_command(int argc, const char* const* argv) {
  REQUIRE(argc <= 2, ExitCode::usage, "train_gpt help: expected one COMMAND, found {}", argc - 1);
  if (argc < 2 || asks_for_help(argv[1])) return print_overview("");
  const char* const arguments[] = {argv[1], "--help"};
  find_command(argv[1]).run(2, arguments);
}

void completion_command(int argc, const char* const* argv) {
  if (argc == 2 && asks_for_help(argv[1])) {
    fmt::print("{}", completion_help);
    return;
  }
  REQUIRE(argc == 1, ExitCode::usage, "train_gpt completion: expected no argument, found '{}'",
          argv[1]);
  std::vector<CommandFlags> flags;
  for (const auto& command : commands) {
    flags.push_back({command.name, command.options ? command.options() : std::vector<Entry>{},
                     command.takes_settings});
  }
  fmt::print("{}", completion_text(flags));
}

}  // namespace

void run_command(int argc, const char* const* argv) {
  set_error_file(read_error_file());
  const std::string_view first = argc > 1 ? argv[1] : "-";
  if (asks_for_help(first) && argc <= 3) return print_overview(argc == 3 ? argv[2] : "");
  if (first.starts_with('-')) return train_command(argc, argv);
  find_command(first).run(argc - 1, argv + 1);
}

}  // namespace tg
