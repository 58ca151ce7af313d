#include "commands/model_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/checkpoint_manifest.h"
#include "commands/hf_config.h"
#include "config/derived.h"
#include "config/launch.h"
#include "config/resolved.h"
#include "data/vocabulary.h"
#include "files/file.h"
#include "process/machine.h"
#include "run_log/metrics_reader.h"
#include "run_log/step_events.h"

namespace tg {

namespace fs = std::filesystem;

namespace {

constexpr const char* kModelHelp =
    "MODEL is a run's folder, logs/RUN (its final model, else its newest valid checkpoint); a\n"
    "checkpoint's, logs/RUN/checkpoints/step-N; a file of weights (.safetensors, .pt) or an\n"
    "artifact (.int6.ptz, .int8.ptz); or a folder that transformers saved after export. A\n"
    "checkpoint has the weights as trained and their average; --weights raw|ema chooses one,\n"
    "without it the average is taken where the run keeps one. The settings are those of the\n"
    "config.json of the run or folder, unless given here.\n"
    "\n";

// The origin of a setting of the model's run.
constexpr const char* kOfRun = "run";

// ENABLE_LOOPING_AT of a run that has not come to it, or of its checkpoint before that.
constexpr double kNever = 1;

// The steps that `model` was trained for, where it is a checkpoint.
std::optional<std::int64_t> checkpoint_step(const ModelPath& model) {
  if (model.kind == ModelKind::checkpoint) return read_manifest(model.path).step;
  if (model.kind == ModelKind::file) return std::nullopt;
  const auto steps = checkpoint_steps(model.path);
  return steps.empty() ? std::nullopt : std::optional(steps.front());
}

}  // namespace

std::string file_beside(const std::string& weights, const std::string& name) {
  const fs::path path(weights);
  // final_model.2.pt, final_model.2.int6.ptz
  const auto file = path.filename().string();
  const auto begin = file.find('.');
  const auto label = file.substr(std::min(begin, file.size()));
  const auto end = std::min(label.find('.', 1), label.size());
  const bool numbered = end > 1 && label.find_first_not_of("0123456789", 1) >= end;
  const auto dot = name.find('.');
  return path.parent_path() /
         (name.substr(0, dot) + (numbered ? label.substr(0, end) : "") + name.substr(dot));
}

std::string file_of_run(const ModelPath& model, const std::string& name) {
  if (model.kind == ModelKind::file) return file_beside(model.path, name);
  const auto folder = fs::weakly_canonical(model.path);
  const bool one = model.kind == ModelKind::checkpoint;
  return file_beside(one ? folder.parent_path() : folder, name);
}

std::optional<nlohmann::json> read_config(const std::string& path) {
  constexpr int64_t kMaxSize = 1 << 20;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::nullopt;
  auto config = nlohmann::json::parse(read_whole_file(path, kMaxSize), nullptr,
                                      /*allow_exceptions=*/false);
  if (!is_hf_config(config)) return config;
  return config_of_hf(std::move(config), fs::path(path).parent_path());
}

std::optional<bool> ended_with_qat(const Settings& settings, const ModelPath& model) {
  const auto& averaging = settings.averaging;
  if (averaging.qat_enabled || averaging.late_qat_threshold == 0) return averaging.qat_enabled;
  const auto path = file_of_run(model, "metrics.jsonl");
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::nullopt;
  MetricsReader events(path);
  while (const auto event = events.next())
    if ((*event)["event"] == LateQatStarted::kEvent.name) return true;
  return false;
}

bool ended_without_recurrence(const Settings& settings, const ModelPath& model) {
  const auto path = file_of_run(model, "metrics.jsonl");
  std::error_code ignored;
  if (!recurrence_begins(settings.model) || !fs::exists(path, ignored)) return false;
  std::optional<std::int64_t> began;
  MetricsReader events(path);
  while (const auto event = events.next())
    if ((*event)["event"] == RecurrenceStarted::kEvent.name) began = (*event)["step"];
  const auto trained = checkpoint_step(model);
  return !began || (trained && *trained <= *began);
}

bool take_run_settings(const ModelPath& model, CommandInputs& inputs) {
  inputs.run_config = file_of_run(model, "config.json");
  const auto config = read_config(inputs.run_config);
  if (!config) return false;
  const auto of_run = model_settings(*config);
  REQUIRE(of_run, ExitCode::config,
          "{}: expected the config.json of the run that made {}, found something else; move it "
          "away, and no settings are taken from it",
          inputs.run_config, model.path);
  inputs.run_settings = *of_run;
  return true;
}

std::optional<ParseResult> parse_model_command(int argc, const char* const* argv,
                                               const std::string& help,
                                               std::vector<Entry> options) {
  CommandInputs inputs{.options = std::move(options)};
  auto parsed = parse_settings(argc, argv, inputs);
  if (parsed.help || parsed.version) {
    fmt::print("{}", parsed.version
                         ? version_text()
                         : help + kModelHelp + "Options\n" + options_text(inputs.options) +
                               "\nThe settings: train_gpt help train\n");
    return std::nullopt;
  }
  const auto& init_from = parsed.settings.runtime.init_from;
  require_flag(!init_from.empty(), argv[0], "--init-from MODEL, a trained one");
  const auto model = find_model(init_from, parsed.settings.runtime.weights);
  if (!take_run_settings(model, inputs)) {
    if (read_launch().rank == 0) {
      log_warn(
          "{}: no such file; the model's settings are those of flags, environment and defaults",
          inputs.run_config);
    }
    return parsed;
  }
  parsed = parse_settings(argc, argv, inputs);
  for (auto& [member, origin] : parsed.origins) {
    if (origin == inputs.run_config) origin = kOfRun;
  }
  // The script's artifact recurs in any case.
  const bool recurs = parsed.settings.runtime.record_quirks && model.artifact == Artifact::gptq;
  if (!recurs && ended_without_recurrence(parsed.settings, model))
    parsed.settings.model.recurrence.enable_looping_at = kNever;
  return parsed;
}

bool is_given(const Origins& origins, const std::string& member) {
  const auto& origin = origins.at(member);
  return origin != "default" && origin != kOfRun;
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
