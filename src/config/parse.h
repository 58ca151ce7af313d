#pragma once
// Command line, environment and --config files -> Settings.
#include <string>
#include <string_view>
#include <vector>

#include "config/entry.h"
#include "config/env_file.h"
#include "config/settings.h"

namespace tg {

struct ParseResult {
  Settings settings;
  Origins origins;
  std::vector<std::string> warnings;  // of names that are accepted and ignored
  bool help = false;                  // --help or --version was given: `settings` has the defaults
  bool version = false;
  std::string help_page;  // the word after --help, if any
};

// Inputs of a command beside the settings.
struct CommandInputs {
  std::vector<Entry> options = {};  // the command's own flags; no environment or file sets them
  // Settings of the run that made a model, from the file `run_config`; --config files beat them.
  std::vector<Assignment> run_settings = {};
  std::string run_config = {};
  // Sets the defaults of a given RECIPE; null: the program's defaults stay. Unused with
  // run_settings, which are complete.
  void (*set_recipe_defaults)(RecipeChoice, Settings&) = nullptr;
};

// A flag beats the environment, which beats --config files (the later ones beat the earlier), which
// beat the run's settings, which beat the recipe's defaults, which beat the program's. RECIPE=auto
// is resolved. envp: NAME=value strings, null-terminated, or null for none; other names are
// ignored. Origins include the command's options. Throws Error: usage, naming every unknown name
// and bad value; missing_input for a --config file; config for two script switches of one setting.
ParseResult parse_settings(int argc, const char* const* argv, const char* const* envp,
                           const CommandInputs& inputs = {});
// Parses with the environment of this process.
ParseResult parse_settings(int argc, const char* const* argv, const CommandInputs& inputs = {});

// Returns a page of settings, each with flag, environment name, meaning, values and default, in
// lines of at most 80 columns. `page`: empty for the settings that people set most, "all", or a
// name of help_pages(). Throws Error(usage) naming the pages.
std::string help_text(std::string_view page = "");
// Returns the names of the groups of settings, and of the recipes that have settings of their own.
std::vector<std::string> help_pages();
// Describes a command's own options in the form of help_text.
std::string options_text(const std::vector<Entry>& options);

}  // namespace tg
