#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "commands/commands.h"
#include "commands/model_file.h"
#include "commands/print.h"
#include "commands/tensor_table.h"
#include "config/check.h"
#include "config/parse.h"
#include "config/resolved.h"
#include "config/types/text.h"
#include "model_io/checkpoint_model.h"
#include "model_io/model_files.h"
#include "model_io/model_path.h"
#include "model_io/stored_record.h"
#include "recipes/recipe.h"
#include "weights/artifact/read_artifact.h"
#include "weights/tensors/tensor_check.h"
#include "weights/weights_file.h"

namespace tg {
namespace {

constexpr const char* help =
    "train_gpt inspect: prints the tensors of a model.\n"
    "\n"
    "  train_gpt inspect [--quantization [--artifact FILE]] [--weights raw|ema] MODEL\n"
    "  train_gpt inspect --plan|--settings PRESET [--SETTING VALUE]...\n"
    "\n"
    "MODEL is a safetensors or torch.save file, an artifact (.int6.ptz, .int8.ptz), or the folder\n"
    "of a checkpoint, of a run or of transformers. For each tensor, as it is stored: name, dtype,\n"
    "shape, number of elements, bytes; minimum, maximum and root mean square of its finite\n"
    "elements; and the number of non-finite elements, if any tensor has some. The record that is\n"
    "stored with the weights comes first: recipe, stage, QAT and steps. Totals by dtype follow,\n"
    "and the settings that are not at their defaults, if the run's config.json is there.\n"
    "\n"
    "  --quantization  also print the cost of int6 for each matrix of an unquantised model: root\n"
    "                  mean square of the error in % of the matrix's own, and fraction of clipped\n"
    "                  weights; an artifact leaves matrices of up to 65,536 elements unquantised\n"
    "  --artifact      with --quantization: also print each matrix's error in this artifact of\n"
    "                  the model, whose run's config.json must be there\n"
    "  --plan          print instead the model of a file of settings, such as configs/record.env:\n"
    "                  its layer calls with their lanes and skips, stage by stage, and its\n"
    "                  parameters by update rule\n"
    "  --settings      print instead all settings of a run with this file on this machine, from\n"
    "                  the file, its recipe and the environment, as NAME=value lines\n"
    "  --weights       a checkpoint's weights as trained (raw) or their average (ema); without it\n"
    "                  the average if there is one\n";

// Most bytes that an artifact may unpack to; one of 16 MB unpacks to some 30 MB.
constexpr size_t kMaxUnpacked = size_t{1} << 32;

struct Contents {
  std::string what;  // "PATH: FORMAT", then the record on a line of its own
  NamedTensors tensors;
};

std::string text_of(const std::optional<ModelRecord>& record) {
  if (!record) return "";
  return fmt::format("\n{}stage {}, QAT {}, {} steps",
                     record->recipe.empty() ? "" : "recipe " + record->recipe + ", ", record->stage,
                     record->qat ? "on" : "off", record->step);
}

Contents contents_of_checkpoint(const ModelPath& model, WeightsChoice weights) {
  auto checkpoint = model.kind == ModelKind::checkpoint ? read_checkpoint_model(model.path, weights)
                                                        : read_newest_model(model.path, weights);
  return {fmt::format("{}: checkpoint, {}{}", checkpoint.folder, checkpoint.which,
                      text_of(checkpoint.record)),
          std::move(checkpoint.weights)};
}

Contents contents_of_weights(const std::string& path) {
  const auto format = weights_format(path);
  auto file = load_weights(path);
  std::string what = format == WeightsFormat::torch ? "torch.save" : "safetensors";
  if (format == WeightsFormat::safetensors_index) what += ", in several files";
  if (!file.under.empty()) what += fmt::format(", under '{}'", fmt::join(file.under, "', '"));
  what += text_of(stored_record(path, file.metadata));
  return {fmt::format("{}: {}", path, what), std::move(file.tensors)};
}

const char* format_of(Artifact artifact) {
  if (artifact == Artifact::gptq) return "gptq";
  return artifact == Artifact::int6 ? "int6 (.xz)" : "int8 (zlib)";
}

Contents contents_of(const ModelPath& model, WeightsChoice weights) {
  if (model.kind != ModelKind::file) return contents_of_checkpoint(model, weights);
  if (model.artifact == Artifact::none) return contents_of_weights(model.path);
  return {fmt::format("{}: artifact, {}{}", model.path, format_of(model.artifact),
                      text_of(stored_record(model.path, /*metadata=*/{}))),
          read_stored_artifact(model.path, kMaxUnpacked)};
}

std::string settings_text_of(const ModelPath& model) {
  const auto path = file_of_run(model, "config.json");
  const auto config = read_config(path);
  if (!config) return "";
  const auto settings = changed_settings_text(*config);
  if (!settings) return fmt::format("\n{}: not the config.json of a run\n", path);
  if (settings->empty()) return fmt::format("\n{}: every setting at its default\n", path);
  std::string lines = fmt::format("\n{}: settings that are not at their defaults\n", path);
  for (std::string_view rest = *settings; !rest.empty();) {
    const auto end = rest.find('\n');
    lines += "  " + escaped(rest.substr(0, end), rest.size()) + "\n";
    rest.remove_prefix(end + 1);
  }
  return lines;
}

// Returns the table of each matrix's error in int6 and in the artifact at `path`.
std::string errors_text(const ModelPath& model, const std::string& path, WeightsChoice weights) {
  CommandInputs inputs;
  REQUIRE(take_run_settings(model, inputs), ExitCode::missing_input,
          "--artifact needs the model's settings (expected the config.json of its run, {}, found "
          "none)",
          inputs.run_config);
  const char* const program[] = {"inspect"};
  auto settings = parse_settings(1, program, nullptr, inputs).settings;
  settings.runtime.init_from = model.path;
  settings.runtime.weights = weights;
  const auto table = stored_model(settings, at::kCPU).parameters;
  NamedTensors matrices;
  for (const auto& part : unbanked(table)) matrices.emplace_back(part.name, part.value);
  const auto artifact = read_artifact(path, table.element_count());
  return quantization_text(matrices, &artifact);
}

// Removes `flag` VALUE or `flag`=VALUE from `words` and returns VALUE; empty if it is absent.
std::string take_flag(std::vector<std::string>& words, const std::string& flag) {
  const auto joined = flag + "=";
  const auto found = std::ranges::find_if(
      words, [&](const std::string& word) { return word == flag || word.starts_with(joined); });
  if (found == words.end()) return "";
  const bool apart = *found == flag;
  if (apart && found + 1 == words.end()) return "";
  const auto value = apart ? found[1] : found->substr(joined.size());
  REQUIRE(!value.empty(), ExitCode::usage, "train_gpt inspect: {}: expected a value, found none",
          flag);
  words.erase(found, found + (apart ? 2 : 1));
  return value;
}

struct Arguments {
  std::string model;
  InspectOptions options;
};

Arguments parse_arguments(std::vector<std::string> words) {
  Arguments arguments;
  auto& options = arguments.options;
  options.quantization = std::erase(words, "--quantization") > 0;
  options.artifact = take_flag(words, "--artifact");
  if (const auto choice = take_flag(words, "--weights"); !choice.empty()) {
    REQUIRE(read_value(choice, options.weights), ExitCode::usage,
            "train_gpt inspect: --weights: expected raw or ema, found '{}'", choice);
  }
  REQUIRE(options.artifact.empty() || options.quantization, ExitCode::usage,
          "train_gpt inspect: --artifact: expected with --quantization");
  REQUIRE(words.size() == 1 && !words[0].starts_with('-'), ExitCode::usage,
          "train_gpt inspect: expected one MODEL, found {}; see train_gpt inspect --help",
          words.empty() ? "none" : fmt::format("'{}'", fmt::join(words, " ")));
  arguments.model = words[0];
  return arguments;
}

// Returns the output of --plan or --settings. argv: inspect, --plan or --settings, PRESET and
// settings.
std::string preset_text(int argc, const char* const* argv) {
  const std::string_view what = argv[1];
  REQUIRE(argc > 2, ExitCode::usage,
          "train_gpt inspect: {}: expected a file of settings, found none; see train_gpt inspect "
          "--help",
          what);
  std::vector<const char*> arguments(argv, argv + argc);
  arguments[1] = "--config";
  const auto settings =
      parse_settings(argc, arguments.data(), {.set_recipe_defaults = set_recipe_defaults}).settings;
  check_settings(settings, /*world_size=*/1, SettingsUse::weights);
  return what == "--plan" ? plan_text(settings) : settings_text(settings);
}

}  // namespace

std::string inspect_text(const std::string& path, const InspectOptions& options) {
  const auto model = find_model(path, options.weights);
  REQUIRE(model.artifact == Artifact::none || !options.quantization, ExitCode::usage,
          "{}: --quantization expects a model that is not quantised, found an artifact", path);
  const auto [what, tensors] = contents_of(model, options.weights);
  std::string quantization;
  if (options.quantization)
    quantization =
        "\n" + (options.artifact.empty() ? quantization_text(tensors)
                                         : errors_text(model, options.artifact, options.weights));
  return fmt::format("{}\n\n{}\n{}{}{}", what, tensors_text(tensors), totals_text(tensors),
                     quantization, settings_text_of(model));
}

void inspect_command(int argc, const char* const* argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words == std::vector<std::string>{"--help"} || words == std::vector<std::string>{"-h"})
    return print_text(help);
  if (!words.empty() && (words[0] == "--plan" || words[0] == "--settings"))
    return print_text(preset_text(argc, argv));
  const auto [model, options] = parse_arguments(words);
  print_text(inspect_text(model, options));
}

}  // namespace tg
