#include "commands/inspect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "commands/tensor_table.h"
#include "config/resolved.h"
#include "store/byte_source.h"
#include "store/tensor_check.h"
#include "store/weights_file.h"

namespace tg {
namespace {

namespace fs = std::filesystem;

constexpr const char* help =
    "train_gpt inspect: prints the tensors of a weights file.\n"
    "\n"
    "  train_gpt inspect FILE\n"
    "\n"
    "FILE is a safetensors or torch.save file. For each tensor: name, dtype, shape, number of\n"
    "elements, bytes; minimum, maximum and root mean square of its finite elements; and how\n"
    "many elements are not finite, if any tensor has such. Then totals by dtype and, if the\n"
    "config.json of the run is beside FILE, its settings that are not at their defaults.\n";

// Of final_model.2.pt, which a later run of the same RUN_ID numbered aside, it is config.2.json.
fs::path config_of(const fs::path& weights) {
  const auto label = weights.stem().extension().string();
  const bool numbered =
      label.size() > 1 && label.find_first_not_of("0123456789", 1) == std::string::npos;
  return weights.parent_path() / ("config" + (numbered ? label : "") + ".json");
}

std::string settings_text_beside(const std::string& weights) {
  constexpr uint64_t kMaxSize = 1 << 20;
  const auto path = config_of(weights).string();
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return "";
  const FileSource source(path);
  const auto text = source.read(0, std::min(source.size(), kMaxSize));
  const auto config = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto settings = changed_settings_text(config);
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

std::string inspect_text(const std::string& path) {
  const bool torch = weights_format(path) == WeightsFormat::torch;
  const NamedTensors tensors = load_weights(path);
  return fmt::format("{}: {}\n\n{}\n{}{}", path, torch ? "torch.save" : "safetensors",
                     tensors_text(tensors), totals_text(tensors), settings_text_beside(path));
}

void inspect_command(int argc, const char* const* argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  std::string text = help;
  if (words != std::vector<std::string>{"--help"} && words != std::vector<std::string>{"-h"}) {
    REQUIRE(words.size() == 1 && !words[0].starts_with('-'), ExitCode::usage,
            "train_gpt inspect: expected one FILE, found {}; see train_gpt inspect --help",
            words.empty() ? "none" : fmt::format("'{}'", fmt::join(words, " ")));
    text = inspect_text(words[0]);
  }
  const bool written = std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  REQUIRE(written, ExitCode::io, "standard output cannot be written ({})", std::strerror(errno));
}

}  // namespace tg
