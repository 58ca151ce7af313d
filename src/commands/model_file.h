#pragma once
// The trained model of a command, --init-from MODEL, and its run's config.json.
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/parse.h"
#include "model_io/model_path.h"
#include "text/tokenizer.h"

namespace tg {

// Reads the config.json of a run, or of a model that export wrote for transformers, in a run's
// form; JSON's `discarded` if it is no JSON; nothing if there is no such file. Throws Error:
// missing_input, io.
std::optional<nlohmann::json> read_config(const std::string& path);

// Sets in `inputs` the settings of the model's run and the path of its config.json, or else the
// settings inferred from a checkpoint of the GPT-124M script of 2024 and the model's path. Returns
// false if there is neither. Throws what read_config(), load_weights() and refuse_foreign_names()
// throw; Error: config if the config.json is not a run's, bad_data if it is another model's.
bool take_run_settings(const ModelPath& model, CommandInputs& inputs);

// Parses the settings of a command `train_gpt COMMAND --init-from MODEL [--SETTING VALUE]...`: the
// run's config.json ranks below --config files (model_settings()); without one, a warning. Prints
// `help`, `options` and the settings for --help, the versions for --version, and returns nothing.
// Throws what parse_settings, find_model() and take_run_settings() throw; Error(usage) without
// INIT_FROM.
std::optional<ParseResult> parse_model_command(int argc, const char* const* argv,
                                               const std::string& help,
                                               std::vector<Entry> options = {});

// Throws Error(usage) unless `given`. `flag`: the flag that `command` requires, such as "--out
// FILE".
void require_flag(bool given, std::string_view command, std::string_view flag);

// Opens the tokenizer of TOKENIZER_PATH; its vocabulary may be padded. `command`: for messages.
// Throws Error: usage without TOKENIZER_PATH, config for more pieces than VOCAB_SIZE; and what
// Tokenizer throws.
Tokenizer open_tokenizer(const Settings& settings, std::string_view command);

}  // namespace tg
