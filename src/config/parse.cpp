#include "config/parse.h"

#include <unistd.h>

#include <algorithm>
#include <cxxopts.hpp>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/escaped.h"
#include "config/derived.h"
#include "config/resolved.h"
#include "config/script_names.h"
#include "config/suggest.h"
#include "config/types/text.h"

namespace tg {
namespace {

struct Flags {
  std::vector<std::pair<std::string, std::string>> values;  // flag name, text, in the order given
  std::vector<std::string> config_files;
  bool help = false;
  bool version = false;
  std::string help_page;
};

// cxxopts matches words with std::regex, which recurses for each letter: a word of 100,000
// overflows the stack.
constexpr std::size_t longest_word = 4096;

// Returns the hint about an unknown name. `spelled`: writes a member as the user would.
std::string suggestion(const std::vector<std::string>& meant, auto spelled) {
  if (meant.empty()) return "--help all lists those that there are";
  std::string text = "did you mean ";
  for (std::size_t i = 0; i < meant.size(); ++i) {
    if (i > 0) text += i + 1 == meant.size() ? " or " : ", ";
    text += spelled(meant[i]);
  }
  return text + "?";
}

class Parser {
 public:
  explicit Parser(const CommandInputs& inputs)
      : inputs_(inputs),
        settings_(entries_of(result_.settings)),
        script_names_(script_name_entries(script_values_)) {
    begin();
  }

  ParseResult parse(int argc, const char* const* argv, const char* const* envp) {
    const Flags flags = read_flags({argv, argv + argc});
    result_.help = flags.help;
    result_.version = flags.version;
    result_.help_page = flags.help_page;
    if (flags.help || flags.version) return std::move(result_);
    std::vector<Assignment> lines;  // of the files
    for (const auto& path : flags.config_files) {
      const auto read = read_env_file(path);
      lines.insert(lines.end(), read.begin(), read.end());
    }
    const auto before = problems_;
    apply_all(lines, envp, flags);
    if (take_recipe_defaults()) {
      problems_ = before;
      apply_all(lines, envp, flags);  // above these defaults
    }
    REQUIRE(problems_.empty(), ExitCode::usage, "{}", fmt::join(problems_, "; "));
    auto& recipe = result_.settings.model.recipe;
    recipe = resolved_recipe(result_.settings);
    for (const auto& [member, reason] : ignored_names) {
      const auto given = script_values_.find(std::string(member));
      if (given != script_values_.end())
        result_.warnings.push_back(fmt::format("{}={} has no effect: {}", env_name(member),
                                               value_text(given->second), reason));
    }
    return std::move(result_);
  }

 private:
  void begin() {
    result_.settings = Settings();
    script_values_.clear();
    selected_by_.clear();
    for_each_entry([&](const Entry& entry) { result_.origins[entry.member] = origin::program; });
  }

  // Starts again from the defaults of the given recipe. Returns whether one was given.
  bool take_recipe_defaults() {
    const auto recipe = result_.settings.model.recipe;
    if (recipe == RecipeChoice::automatic || inputs_.set_recipe_defaults == nullptr ||
        !inputs_.run_settings.empty())
      return false;
    begin();
    inputs_.set_recipe_defaults(recipe, result_.settings);
    for_each_setting(result_.settings, [&](const auto& setting) {
      if (find_member(setting.name)->value != value_text(setting.value))
        result_.origins[setting.name] = origin::recipe;
    });
    return true;
  }

  void apply_all(const std::vector<Assignment>& lines, const char* const* envp,
                 const Flags& flags) {
    apply_assignments(inputs_.run_settings);
    apply_assignments(lines);
    apply_environment(envp);
    for (const auto& [flag, text] : flags.values)
      apply(*find_flag(flag), text, "flag", "--" + flag);
  }

  void for_each_entry(auto&& f) const {
    for (const auto* entries : {&settings_, &script_names_, &inputs_.options})
      for (const Entry& entry : *entries) f(entry);
  }
  const Entry* find_flag(std::string_view name) const {
    const Entry* found = nullptr;
    for_each_entry([&](const Entry& entry) {
      if (flag_name(entry.member) == name) found = &entry;
    });
    return found;
  }
  const Entry* find_env(std::string_view name) const {
    for (const auto* entries : {&script_names_, &settings_}) {
      for (const Entry& entry : *entries)
        if (env_name(entry.member) == name) return &entry;
    }
    return nullptr;
  }
  const Entry* find_member(std::string_view name) const {
    return &*std::ranges::find(settings_, name, &Entry::member);
  }

  void apply(const Entry& entry, std::string_view text, std::string origin,
             const std::string& where) {
    if (entry.assign(text)) {
      if (const auto* selects = find_script_switch(entry.member)) select(*selects, origin);
      result_.origins[entry.member] = std::move(origin);
    } else {
      problems_.push_back(fmt::format("{}='{}' ({}): expected {}", env_name(entry.member),
                                      escaped(text, 200), where, entry.expected));
    }
  }

  // Two switches of one setting exclude each other where the same source gives both; otherwise the
  // stronger source decides.
  void select(const ScriptSwitch& given, const std::string& origin) {
    const bool on = script_values_.at(std::string(given.member));
    if (!on && setting_text(result_.settings, given.setting) != given.value) return;
    find_member(given.setting)->assign(on ? given.value : "off");
    result_.origins[std::string(given.setting)] = origin;
    if (!on) return;
    auto& [before, source] = selected_by_[given.setting];
    REQUIRE(before.empty() || before == given.member || source != origin, ExitCode::config,
            "{}=1 and {}=1: {} has one value: expected one of them", env_name(before),
            env_name(given.member), env_name(given.setting));
    before = given.member;
    source = origin;
  }

  void apply_assignments(const std::vector<Assignment>& assignments) {
    for (const auto& [name, value, line, file] : assignments) {
      const auto& path = file.empty() ? inputs_.run_config : file;
      const auto where = line > 0 ? fmt::format("{}:{}", path, line) : path;
      if (const Entry* entry = find_env(name)) {
        apply(*entry, value, path, where);
      } else {
        std::vector<std::string> known;
        for (const auto* entries : {&settings_, &script_names_})
          for (const Entry& known_entry : *entries) known.push_back(known_entry.member);
        problems_.push_back(fmt::format("{}: unknown setting {}; {}", where, name,
                                        suggestion(meant_settings(name, known), env_name)));
      }
    }
  }

  // An environment has no order: a setting's own name beats the switches that select its values.
  void apply_environment(const char* const* envp) {
    for (const bool switches : {true, false}) {
      for (auto* variable = envp; variable != nullptr && *variable != nullptr; ++variable) {
        const std::string_view text = *variable;
        const auto equals = text.find('=');
        if (equals == std::string_view::npos) continue;
        const Entry* entry = find_env(text.substr(0, equals));
        if (entry != nullptr && (find_script_switch(entry->member) != nullptr) == switches)
          apply(*entry, text.substr(equals + 1), "environment", "environment");
      }
    }
  }

  // Joins switches and their values, and reports flags without a value. In cxxopts a flag takes the
  // next word as its value either always or never; here a switch may have a value, and a missing
  // value must not be taken from the next flag.
  std::vector<std::string> joined(const std::vector<std::string>& words, std::string& help_page) {
    std::vector<std::string> out;
    for (std::size_t i = 0; i < words.size(); ++i) {
      REQUIRE(words[i].size() <= longest_word, ExitCode::usage,
              "an argument of {} characters ({}...): expected at most {}", words[i].size(),
              words[i].substr(0, 40), longest_word);
      const bool is_flag = i > 0 && words[i].starts_with("--");
      const std::string name = is_flag ? words[i].substr(2) : "";
      const Entry* entry = is_flag ? find_flag(name) : nullptr;
      const bool has_next = i + 1 < words.size();
      bool ignored = false;
      if (words[i] == "-h" || words[i] == "--help") {
        out.push_back("--help");
        if (has_next && !words[i + 1].starts_with('-')) help_page = words[++i];
      } else if (entry == nullptr && name != "config") {
        out.push_back(words[i]);
      } else if (entry != nullptr && entry->is_bool) {
        out.push_back(words[i] + "=");
        const bool has_value = has_next && read_value(words[i + 1], ignored);
        out.back() += has_value ? words[++i] : "1";
      } else if (has_next && !words[i + 1].starts_with("--")) {
        out.push_back(words[i]);
        out.push_back(words[++i]);
      } else {
        problems_.push_back(fmt::format("{} needs a value", words[i]));
      }
    }
    return out;
  }

  Flags read_flags(const std::vector<std::string>& words) {
    cxxopts::Options options("train_gpt");
    options.allow_unrecognised_options();
    auto add = options.add_options();
    add("h,help", "");
    add("version", "");
    add("config", "", cxxopts::value<std::string>());
    for_each_entry([&](const Entry& entry) {
      add(flag_name(entry.member), "", cxxopts::value<std::string>());
    });

    Flags flags;
    const auto safe_words = joined(words, flags.help_page);
    std::vector<const char*> argv;
    for (const auto& word : safe_words) argv.push_back(word.c_str());
    try {
      const auto parsed = options.parse(static_cast<int>(argv.size()), argv.data());
      flags.help = parsed.count("help") > 0;
      flags.version = parsed.count("version") > 0;
      for (const auto& argument : parsed.arguments()) {
        if (argument.key() == "config") {
          flags.config_files.push_back(argument.value());
        } else if (find_flag(argument.key()) != nullptr) {
          flags.values.emplace_back(argument.key(), argument.value());
        }
      }
      report_unknown(parsed.unmatched());
    } catch (const cxxopts::exceptions::exception& error) {
      problems_.push_back(error.what());
    }
    return flags;
  }

  void report_unknown(const std::vector<std::string>& words) {
    std::vector<std::string> known;
    for_each_entry([&](const Entry& entry) { known.push_back(entry.member); });
    known.insert(known.end(), {"config", "help", "version"});
    bool after_unknown_flag = false;  // the next word is probably its value
    for (const auto& word : words) {
      const bool is_flag = word.size() > 1 && word[0] == '-';
      if (is_flag) {
        const auto equals = word.find('=');
        const auto name = word.substr(0, equals);
        const auto bare = name.substr(std::min(name.find_first_not_of('-'), name.size()));
        problems_.push_back(fmt::format(
            "unknown flag {}; {}", name,
            suggestion(meant_settings(bare, known),
                       [](std::string_view member) { return "--" + flag_name(member); })));
        after_unknown_flag = equals == std::string::npos;
      } else {
        if (!after_unknown_flag) problems_.push_back(fmt::format("unexpected argument '{}'", word));
        after_unknown_flag = false;
      }
    }
  }

  ParseResult result_;
  const CommandInputs& inputs_;
  std::vector<Entry> settings_;                // point into result_
  std::map<std::string, bool> script_values_;  // values of the scripts' names that were given
  std::vector<Entry> script_names_;            // point into script_values_
  // By setting: the script's switch that selected its value last, and that switch's origin.
  std::map<std::string_view, std::pair<std::string_view, std::string>> selected_by_;
  std::vector<std::string> problems_;
};

}  // namespace

ParseResult parse_settings(int argc, const char* const* argv, const char* const* envp,
                           const CommandInputs& inputs) {
  return Parser(inputs).parse(argc, argv, envp);
}

ParseResult parse_settings(int argc, const char* const* argv, const CommandInputs& inputs) {
  return parse_settings(argc, argv, environ, inputs);
}

}  // namespace tg
