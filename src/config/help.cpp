#include <string>

#include "config/parse.h"
#include "config/types/text.h"

namespace tg {
namespace {

constexpr const char* head =
    "train_gpt train: trains a GPT from token shards, on a CPU or on GPUs.\n"
    "\n"
    "  train_gpt [train] [--config FILE]... [--SETTING VALUE]...\n"
    "\n"
    "A setting comes from its flag, else from the environment, else from a --config file of "
    "NAME=value\n"
    "lines (configs/; later files win), else from its default. A switch without a value means 1.\n"
    "\n"
    "  --config FILE   read settings from FILE; may be repeated\n"
    "  --help          this text\n"
    "  --version       versions of this program and of its libraries\n";

std::string text_of(const Entry& entry, const std::string& env) {
  return fmt::format("  --{}{}\n      {}\n      takes {}; default {}\n", flag_name(entry.member),
                     env, entry.help, entry.expected, entry.value.empty() ? "empty" : entry.value);
}

}  // namespace

std::string help_text() {
  std::string text = head, compatibility;
  Settings defaults;
  Settings::visit_groups(defaults, [&](const char* title, auto& group) {
    text += fmt::format("\n{}\n", title);
    for (const Entry& entry : entries_of(group)) {
      auto& to = entry.role.is_compatibility ? compatibility : text;
      to += text_of(entry, "  " + env_name(entry.member));
    }
  });
  return text + "\nCompatibility with the Python reference implementation\n" + compatibility;
}

std::string options_text(const std::vector<Entry>& options) {
  std::string text;
  for (const Entry& entry : options) text += text_of(entry, "");
  return text;
}

}  // namespace tg
