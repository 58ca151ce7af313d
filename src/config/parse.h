#pragma once
// Command line, environment and --config files -> Settings.
#include <string>
#include <vector>

#include "config/entry.h"
#include "config/env_file.h"
#include "config/settings.h"

namespace tg {

struct ParseResult {
  Settings settings;
  Origins origins;
  bool help = false;  // --help or --version was given: `settings` has the defaults
  bool version = false;
};

// What a command reads beside the settings.
struct CommandInputs {
  std::vector<Entry> options = {};  // its own flags; no environment or file sets them
  // Settings of the run that made a model, which --config files beat: from the file `run_config`.
  std::vector<Assignment> run_settings = {};
  std::string run_config = {};
  // Sets the defaults of a RECIPE that is given; null: there are the program's alone. A run's
  // settings are all of its recipe's.
  void (*set_recipe_defaults)(RecipeChoice, Settings&) = nullptr;
};

// A flag beats the environment, which beats --config files (the later ones beat the earlier), which
// beat the run's settings, which beat the recipe's defaults, which beat the program's. RECIPE=auto
// is resolved. envp: NAME=value strings, null-terminated, or null for none; other names are
// ignored. Origins are given of options, too. Errors: usage, naming every unknown name and bad
// value; missing_input for a --config file.
ParseResult parse_settings(int argc, const char* const* argv, const char* const* envp,
                           const CommandInputs& inputs = {});
// With the environment of this process.
ParseResult parse_settings(int argc, const char* const* argv, const CommandInputs& inputs = {});

// Every setting by group: flag, environment name, default, what it takes and what it does.
std::string help_text();
// A command's own options in the same form.
std::string options_text(const std::vector<Entry>& options);

}  // namespace tg
