#pragma once
// A trained model as commands take it: --init-from FILE, with the config.json of its run beside it.
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/parse.h"
#include "data/tokenizer.h"

namespace tg {

// The path of its run's file `name`, config.json or metrics.jsonl, beside a weights file: of
// final_model.2.pt, which a later run of the same RUN_ID numbered aside, it is config.2.json.
std::string file_beside(const std::string& weights, const std::string& name);
// It, parsed; JSON's `discarded` where it is no JSON. Nothing where there is no such file. Errors:
// io.
std::optional<nlohmann::json> read_config(const std::string& path);

// Whether QAT was on at the end of the run that made INIT_FROM: by QAT_ENABLED, or by the late_qat
// event in the metrics.jsonl beside it. Nothing where that file is needed and cannot be read.
std::optional<bool> ended_with_qat(const Settings& settings);

// The settings of a command `train_gpt COMMAND --init-from FILE [--SETTING VALUE]...`: those of the
// run's config.json come below --config files (see model_settings()); without one, a warning.
// Prints `help`, `options` and the settings for --help, the versions for --version, and returns
// nothing. Errors: those of parse_settings; usage (no INIT_FROM), missing_input (no such file),
// config (a config.json that is no run's).
std::optional<ParseResult> parse_model_command(int argc, const char* const* argv,
                                               const std::string& help,
                                               std::vector<Entry> options = {});

// The tokenizer of TOKENIZER_PATH; its vocabulary may be padded. `command`: for messages. Errors:
// usage (no TOKENIZER_PATH), config (more pieces than VOCAB_SIZE), those of Tokenizer.
Tokenizer open_tokenizer(const Settings& settings, std::string_view command);

}  // namespace tg
