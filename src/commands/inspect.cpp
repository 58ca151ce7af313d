#include "commands/inspect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "artifact/read_artifact.h"
#include "base/error.h"
#include "commands/model_file.h"
#include "commands/print.h"
#include "commands/quantization_table.h"
#include "commands/tensor_table.h"
#include "config/resolved.h"
#include "store/tensor_check.h"
#include "store/weights_file.h"
#include "train/artifact_files.h"

namespace tg {
namespace {

constexpr const char* help =
    "train_gpt inspect: prints the tensors of a weights file.\n"
    "\n"
    "  train_gpt inspect [--quantization] FILE\n"
    "\n"
    "FILE is a safetensors or torch.save file, or an artifact (.int6.ptz, .int8.ptz). For each\n"
    "tensor, as it is stored: name, dtype, shape, number of elements, bytes; minimum, maximum and\n"
    "root mean square of its finite elements; and how many elements are not finite, if any tensor\n"
    "has such. Then totals by dtype and, if the config.json of the run is beside FILE, its\n"
    "settings that are not at their defaults.\n"
    "\n"
    "  --quantization  also print, of each matrix of a model that is not quantised, what six bits\n"
    "                  would cost: root mean square of the error in % of the matrix's own, and\n"
    "                  share of weights that are clipped; an artifact leaves matrices of up to\n"
    "                  65,536 elements as they are\n";

// Of what an artifact unpacks to; one of 16 MB unpacks to some 30.
constexpr size_t kMaxUnpacked = size_t{1} << 32;

const char* format_name(Artifact artifact, const std::string& path) {
  if (artifact == Artifact::int6) return "artifact, int6 (.xz)";
  if (artifact == Artifact::int8_zlib) return "artifact, int8 (zlib)";
  return weights_format(path) == WeightsFormat::torch ? "torch.save" : "safetensors";
}

std::string settings_text_beside(const std::string& weights) {
  const auto path = file_beside(weights, "config.json");
  const auto config = read_config(path);
  if (!config) return "";
  const auto settings = changed_settings_text(*config);
  if (!settings) return fmt::format("\n{}: not the config.json of a run\n", path);
  if (settings->empty()) return fmt::format("\n{}: every setting at its default\n", path);
  std::string lines = fmt::format("\n{}: settings that are not at their defaults\n", path);
  for (std::string_view rest = *settings; !rest.empty();) {
    const auto end = rest.find('\n');
    lines += "  " + shown(rest.substr(0, end), rest.size()) + "\n";
    rest.remove_prefix(end + 1);
  }
  return lines;
}

}  // namespace

std::string inspect_text(const std::string& path, bool quantization) {
  const auto artifact = artifact_of(path);
  const bool raw = artifact == Artifact::none;
  REQUIRE(raw || !quantization, ExitCode::usage,
          "{}: --quantization expects a model that is not quantised, found an artifact", path);
  const NamedTensors tensors = raw ? load_weights(path) : read_stored_artifact(path, kMaxUnpacked);
  return fmt::format("{}: {}\n\n{}\n{}{}{}", path, format_name(artifact, path),
                     tensors_text(tensors), totals_text(tensors),
                     quantization ? "\n" + quantization_text(tensors) : "",
                     settings_text_beside(path));
}

void inspect_command(int argc, const char* const* argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  std::string text = help;
  if (words != std::vector<std::string>{"--help"} && words != std::vector<std::string>{"-h"}) {
    const bool quantization = std::erase(words, "--quantization") > 0;
    REQUIRE(words.size() == 1 && !words[0].starts_with('-'), ExitCode::usage,
            "train_gpt inspect: expected one FILE, found {}; see train_gpt inspect --help",
            words.empty() ? "none" : fmt::format("'{}'", fmt::join(words, " ")));
    text = inspect_text(words[0], quantization);
  }
  print_text(text);
}

}  // namespace tg
