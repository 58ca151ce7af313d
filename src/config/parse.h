#pragma once
// Command line, environment and --config files -> Settings.
#include <string>

#include "config/settings.h"

namespace tg {

struct ParseResult {
  Settings settings;
  Origins origins;
  bool help = false;  // --help or --version was given: `settings` has the defaults
  bool version = false;
};

// A flag beats the environment, which beats --config files (the later ones beat the earlier), which
// beat the defaults. envp: NAME=value strings, null-terminated, or null for none; other names are
// ignored. Errors: usage, naming every unknown name and bad value; missing_input for
// a --config file.
ParseResult parse_settings(int argc, const char* const* argv, const char* const* envp);
// With the environment of this process.
ParseResult parse_settings(int argc, const char* const* argv);

// Every setting by group: flag, environment name, default, what it takes and what it does.
std::string help_text();

}  // namespace tg
