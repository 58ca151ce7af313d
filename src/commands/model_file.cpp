#include "commands/model_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "commands/hf_config.h"
#include "config/launch.h"
#include "config/resolved.h"
#include "config/types/text.h"
#include "data/vocabulary.h"
#include "files/file.h"
#include "process/machine.h"
#include "recipes/recipe.h"
#include "weights/foreign_weights.h"
#include "weights/weights_file.h"

namespace tg {

namespace fs = std::filesystem;

namespace {

constexpr const char* kModelHelp =
    "MODEL is a run's folder, logs/RUN (its final model, else its newest valid checkpoint); a\n"
    "checkpoint's, logs/RUN/checkpoints/step-N; a file of weights (.safetensors, .pt) or an\n"
    "artifact (.int6.ptz, .int8.ptz); or a folder that transformers saved after export. A\n"
    "checkpoint has the weights as trained and their average; --weights raw|ema chooses one,\n"
    "without it the average is taken if the run keeps one. The settings come from the\n"
    "config.json of the run or folder, unless given here.\n"
    "\n";

constexpr std::int64_t kHeadChannels = 128;

// Returns the settings of a checkpoint of the GPT-124M script of 2024: sizes from the shapes of its
// weights (heads have 128 channels), the others from the recipe speedrun. Empty if `model` is no
// such file. Throws what load_weights() and refuse_foreign_names() throw.
std::vector<Assignment> script_settings(const ModelPath& model) {
  if (model.kind != ModelKind::file || model.artifact != Artifact::none) return {};
  auto tensors = load_weights(model.path).tensors;
  unwrap_names(tensors, model.path);
  refuse_foreign_names(tensors, model.path);
  const auto sizes = script_model(tensors);
  if (!sizes) return {};
  Settings settings;
  set_recipe_defaults(RecipeChoice::speedrun, settings);
  auto& config = settings.model;
  config.recipe = RecipeChoice::speedrun;
  config.vocab_size = sizes->vocabulary;
  config.num_layers = sizes->layers;
  config.model_dim = sizes->channels;
  config.num_heads = config.num_kv_heads =
      std::max<std::int64_t>(1, sizes->channels / kHeadChannels);
  config.mlp_mult = static_cast<double>(sizes->hidden / sizes->channels);
  std::vector<Assignment> lines = {{"TOKENIZER_PATH", settings.data.tokenizer_path, 0},
                                   {"TRAIN_SEQ_LEN", value_text(settings.run.train_seq_len), 0}};
  const auto add = [&](const auto& setting) {
    lines.push_back({env_name(setting.name), value_text(setting.value), 0});
  };
  for_each_setting(config, add, settings);
  return lines;
}

}  // namespace

std::optional<nlohmann::json> read_config(const std::string& path) {
  constexpr int64_t kMaxSize = 1 << 20;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::nullopt;
  auto config = nlohmann::json::parse(read_whole_file(path, kMaxSize), nullptr,
                                      /*allow_exceptions=*/false);
  if (!is_hf_config(config)) return config;
  return config_of_hf(std::move(config), fs::path(path).parent_path());
}

bool take_run_settings(const ModelPath& model, CommandInputs& inputs) {
  inputs.run_config = file_of_run(model, "config.json");
  const auto config = read_config(inputs.run_config);
  if (!config) {
    inputs.run_settings = script_settings(model);
    if (inputs.run_settings.empty()) return false;
    inputs.run_config = model.path;
    return true;
  }
  refuse_foreign_config(*config, inputs.run_config);
  const auto run_settings = model_settings(*config);
  REQUIRE(run_settings, ExitCode::config,
          "{}: expected the config.json of the run that made {}, found something else; move it "
          "away, and no settings are taken from it",
          inputs.run_config, model.path);
  inputs.run_settings = *run_settings;
  return true;
}

std::optional<ParseResult> parse_model_command(int argc, const char* const* argv,
                                               const std::string& help,
                                               std::vector<Entry> options) {
  CommandInputs inputs{.options = std::move(options), .set_recipe_defaults = set_recipe_defaults};
  auto parsed = parse_settings(argc, argv, inputs);
  if (parsed.help || parsed.version) {
    fmt::print("{}", parsed.version
                         ? version_text()
                         : help + kModelHelp + "Options\n" + options_text(inputs.options) +
                               "\nThe settings: train_gpt --help all\n");
    return std::nullopt;
  }
  const auto& init_from = parsed.settings.runtime.init_from;
  require_flag(!init_from.empty(), argv[0], "--init-from MODEL, a trained one");
  const auto model = find_model(init_from, parsed.settings.runtime.weights);
  if (!take_run_settings(model, inputs)) {
    if (read_launch().rank == 0) {
      log_warn("{}: no such file; the model's settings come from flags, environment and defaults",
               inputs.run_config);
    }
    return parsed;
  }
  parsed = parse_settings(argc, argv, inputs);
  for (auto& [member, source] : parsed.origins) {
    if (source == inputs.run_config) source = origin::run;
  }
  return parsed;
}

void require_flag(bool given, std::string_view command, std::string_view flag) {
  REQUIRE(given, ExitCode::usage,
          "train_gpt {0}: expected {1}, found none; see train_gpt {0} --help", command, flag);
}

Tokenizer open_tokenizer(const Settings& settings, std::string_view command) {
  const auto& path = settings.data.tokenizer_path;
  REQUIRE(!path.empty(), ExitCode::usage,
          "train_gpt {} needs a tokenizer (expected the path of one, found an empty "
          "TOKENIZER_PATH); give --tokenizer-path",
          command);
  auto tokenizer = make_tokenizer(settings.data);
  REQUIRE(tokenizer.pieces() <= settings.model.vocab_size, ExitCode::config,
          "{}: has {} pieces, more than VOCAB_SIZE={}; it is not this model's tokenizer", path,
          tokenizer.pieces(), settings.model.vocab_size);
  return tokenizer;
}

}  // namespace tg
