#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "config/entry.h"

namespace tg {

struct CommandFlags {
  std::string_view name;
  std::vector<Entry> options;  // the command's own flags
  bool takes_settings;
};

inline constexpr const char* completion_help =
    "train_gpt completion: prints a completion script for bash.\n"
    "\n"
    "  source <(train_gpt completion)\n"
    "\n"
    "in ~/.bashrc completes commands, the flags of settings and options, and their values where\n"
    "these are words, switches or files.\n";

// Returns the bash script.
std::string completion_text(const std::vector<CommandFlags>& commands);

}  // namespace tg
