#include "commands/commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/process_exit.h"
#include "config/entry.h"
#include "config/launch.h"
#include "config/parse.h"
#include "config/settings.h"
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

std::vector<Entry> options_of(const Command& command) {
  return command.options ? command.options() : std::vector<Entry>{};
}

constexpr const char* completion_help =
    "train_gpt completion: prints a completion script for bash.\n"
    "\n"
    "  source <(train_gpt completion)\n"
    "\n"
    "in ~/.bashrc completes commands, the flags of settings and options, and their values where\n"
    "these are words, switches or files.\n";

// Returns the compgen arguments that complete a flag's value: -W "auto cuda cpu", -f (files), or
// nothing for numbers and names.
std::string values_of(const Entry& entry) {
  if (entry.role.is_path) return "-f";
  return entry.words.empty() ? "" : fmt::format("-W \"{}\"", fmt::join(entry.words, " "));
}

std::string flags_text(const std::vector<Entry>& entries) {
  std::string text;
  for (const Entry& entry : entries) text += " --" + flag_name(entry.member);
  return text;
}

// Returns the branches of a bash `case` on the previous word.
std::string value_cases(const std::vector<Entry>& settings) {
  std::map<std::string, std::string> flags = {{"-f", "--config"}};  // flags by compgen arguments
  const auto add = [&](const std::vector<Entry>& entries) {
    for (const Entry& entry : entries) {
      auto& same = flags[values_of(entry)];
      same += (same.empty() ? "--" : "|--") + flag_name(entry.member);
    }
  };
  add(settings);
  for (const auto& command : commands) add(options_of(command));
  std::string text;
  for (const auto& [values, names] : flags) {
    const auto reply =
        values.empty() ? "" : fmt::format("COMPREPLY=($(compgen {} -- \"$word\")); ", values);
    text += fmt::format("    {}) {}return ;;\n", names, reply);
  }
  return text;
}

// Returns the bash script.
std::string completion_text() {
  Settings defaults;
  const auto settings = entries_of(defaults);
  std::string names, cases;
  for (const auto& command : commands) {
    names += fmt::format(" {}", command.name);
    const auto own = flags_text(options_of(command)) + " --help";
    cases += fmt::format("    {}) flags=\"{}{}\" ;;\n", command.name, own.substr(1),
                         command.takes_settings ? " $settings" : "");
  }
  return fmt::format(
      "# Completion of train_gpt for bash: source <(train_gpt completion)\n"
      "_train_gpt() {{\n"
      "  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} flags\n"
      "  local commands=\"{}\"\n"
      "  local settings=\"--config{} --version\"\n"
      "  case $before in\n"
      "{}"
      "  esac\n"
      "  case ${{COMP_WORDS[1]}} in\n"
      "{}"
      "    *) flags=\"--help $settings\" ;;\n"
      "  esac\n"
      "  if [[ $word == -* ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$flags\" -- \"$word\"))\n"
      "  elif ((COMP_CWORD == 1)) || [[ ${{COMP_WORDS[1]}} == help ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$commands\" -- \"$word\"))\n"
      "  else\n"
      "    COMPREPLY=($(compgen -f -- \"$word\"))\n"
      "  fi\n"
      "}}\n"
      "complete -o filenames -F _train_gpt train_gpt\n",
      names.substr(1), flags_text(settings), value_cases(settings), cases);
}

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
  fmt::print("{}", completion_text());
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
