#include "commands/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "config/settings.h"

namespace tg {
namespace {

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
std::string value_cases(const std::vector<CommandFlags>& commands,
                        const std::vector<Entry>& settings) {
  std::map<std::string, std::string> flags = {{"-f", "--config"}};  // flags by compgen arguments
  const auto add = [&](const std::vector<Entry>& entries) {
    for (const Entry& entry : entries) {
      auto& same = flags[values_of(entry)];
      same += (same.empty() ? "--" : "|--") + flag_name(entry.member);
    }
  };
  add(settings);
  for (const auto& command : commands) add(command.options);
  std::string text;
  for (const auto& [values, names] : flags) {
    const auto reply =
        values.empty() ? "" : fmt::format("COMPREPLY=($(compgen {} -- \"$word\")); ", values);
    text += fmt::format("    {}) {}return ;;\n", names, reply);
  }
  return text;
}

}  // namespace

std::string completion_text(const std::vector<CommandFlags>& commands) {
  Settings defaults;
  const auto settings = entries_of(defaults);
  std::string names, cases;
  for (const auto& command : commands) {
    names += fmt::format(" {}", command.name);
    const auto own = flags_text(command.options) + " --help";
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
      names.substr(1), flags_text(settings), value_cases(commands, settings), cases);
}

}  // namespace tg
