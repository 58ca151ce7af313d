#pragma once
// A trained model as commands take it: --init-from MODEL, with the config.json of its run beside
// it.
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/model_path.h"
#include "config/parse.h"
#include "text/tokenizer.h"

namespace tg {

// The path of its run's file `name`, config.json or metrics.jsonl, beside a weights file or a
// folder of checkpoints: of final_model.2.pt and checkpoints.2, which a later run of the same
// RUN_ID numbered aside, it is config.2.json.
std::string file_beside(const std::string& weights, const std::string& name);
// The same for a model of any kind: beside its file, or two levels up from a checkpoint.
std::string file_of_run(const ModelPath& model, const std::string& name);

// The config.json of a run, or, in the same form, that of a model which export wrote for
// transformers; JSON's `discarded` where it is no JSON. Nothing where there is no such file.
// Errors: missing_input, io.
std::optional<nlohmann::json> read_config(const std::string& path);

// Whether QAT was on at the end of the run that made `model`: by QAT_ENABLED, or by the late_qat
// event in its metrics.jsonl. Nothing where that file is needed and not there. Errors: those of
// MetricsReader.
std::optional<bool> ended_with_qat(const Settings& settings, const ModelPath& model);

// Whether that model was never trained with the recurrence that the settings ask for, by the
// recurrence event in its run's metrics.jsonl; not where there is no such file. Errors: those of
// MetricsReader and, of a checkpoint, of read_manifest().
bool ended_without_recurrence(const Settings& settings, const ModelPath& model);

// Gives `inputs` the settings of the model's run and the path of its config.json; false where there
// is no such file. Errors: those of read_config(), config (it is no run's).
bool take_run_settings(const ModelPath& model, CommandInputs& inputs);

// The settings of a command `train_gpt COMMAND --init-from MODEL [--SETTING VALUE]...`: those of
// the run's config.json come below --config files (see model_settings()); without one, a warning.
// Of a model that ended_without_recurrence() ENABLE_LOOPING_AT is one that never comes.
// Prints `help`, `options` and the settings for --help, the versions for --version, and returns
// nothing. Errors: those of parse_settings, find_model() and take_run_settings(); usage (no
// INIT_FROM).
std::optional<ParseResult> parse_model_command(int argc, const char* const* argv,
                                               const std::string& help,
                                               std::vector<Entry> options = {});

// Whether flag, environment or --config file gave a setting: what else it has is the default, or
// its value in the model's run.
bool is_given(const Origins& origins, const std::string& member);

// A flag that the command needs, such as "--out FILE". Errors: usage, unless `given`.
void require_flag(bool given, std::string_view command, std::string_view flag);

// The tokenizer of TOKENIZER_PATH; its vocabulary may be padded. `command`: for messages. Errors:
// usage (no TOKENIZER_PATH), config (more pieces than VOCAB_SIZE), those of Tokenizer.
Tokenizer open_tokenizer(const Settings& settings, std::string_view command);

}  // namespace tg
