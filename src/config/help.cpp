#include <string>
#include <type_traits>

#include "config/parse.h"
#include "config/text.h"

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

}  // namespace

std::string help_text() {
  std::string text = head;
  const Settings defaults;
  defaults.visit_groups([&](const char* title, const auto& group) {
    text += fmt::format("\n{}\n", title);
    group.visit([&](const char* name, const auto& value, const Limit& limit, const char* help) {
      using T = std::remove_cvref_t<decltype(value)>;
      const std::string shown = value_text(value);
      text += fmt::format("  --{}  {}\n      {}\n      takes {}; default {}\n", flag_name(name),
                          env_name(name), help, expected_text<T>(limit),
                          shown.empty() ? "empty" : shown);
    });
  });
  return text;
}

}  // namespace tg
