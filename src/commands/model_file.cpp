#include "commands/model_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "config/launch.h"
#include "config/resolved.h"
#include "store/byte_source.h"
#include "train/machine.h"

namespace tg {

namespace fs = std::filesystem;

std::string file_beside(const std::string& weights, const std::string& name) {
  const fs::path path(weights);
  // final_model.2.pt, final_model.2.int6.ptz
  const auto file = path.filename().string();
  const auto begin = file.find('.');
  const auto label = file.substr(std::min(begin, file.size()));
  const auto end = label.find('.', 1);
  const bool numbered =
      end != std::string::npos && end > 1 && label.find_first_not_of("0123456789", 1) == end;
  const auto dot = name.find('.');
  return path.parent_path() /
         (name.substr(0, dot) + (numbered ? label.substr(0, end) : "") + name.substr(dot));
}

std::optional<nlohmann::json> read_config(const std::string& path) {
  constexpr uint64_t kMaxSize = 1 << 20;
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return std::nullopt;
  const FileSource source(path);
  const auto text = source.read(0, std::min(source.size(), kMaxSize));
  return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
}

std::optional<bool> ended_with_qat(const Settings& settings) {
  const auto& averaging = settings.averaging;
  if (averaging.qat_enabled || averaging.late_qat_threshold == 0) return averaging.qat_enabled;
  const auto path = file_beside(settings.runtime.init_from, "metrics.jsonl");
  std::ifstream events(path);
  if (!events) return std::nullopt;
  for (std::string line; std::getline(events, line);) {
    if (line.find("late_qat") == std::string::npos) continue;
    const auto event = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (event.is_object() && event.value("event", nlohmann::json()) == "late_qat") return true;
  }
  return false;
}

std::optional<ParseResult> parse_model_command(int argc, const char* const* argv,
                                               const std::string& help,
                                               std::vector<Entry> options) {
  CommandInputs inputs{.options = std::move(options)};
  auto parsed = parse_settings(argc, argv, inputs);
  if (parsed.help || parsed.version) {
    fmt::print("{}", parsed.version ? version_text()
                                    : help + "Options\n" + options_text(inputs.options) +
                                          "\nThe settings: train_gpt help train\n");
    return std::nullopt;
  }
  const auto& file = parsed.settings.runtime.init_from;
  REQUIRE(
      !file.empty(), ExitCode::usage,
      "train_gpt {0}: expected --init-from FILE, a trained model, found none; see train_gpt {0} "
      "--help",
      argv[0]);
  const FileSource there(file);
  inputs.run_config = file_beside(file, "config.json");
  const auto config = read_config(inputs.run_config);
  if (!config) {
    if (read_launch().rank == 0) {
      log_warn(
          "{}: no such file; the model's settings are those of flags, environment and defaults",
          inputs.run_config);
    }
    return parsed;
  }
  const auto of_run = model_settings(*config);
  REQUIRE(
      of_run, ExitCode::config,
      "{}: expected the config.json of the run that made {}, found something else; move it away "
      "and give the model's settings as flags or with --config",
      inputs.run_config, file);
  inputs.run_settings = *of_run;
  return parse_settings(argc, argv, inputs);
}

Tokenizer open_tokenizer(const Settings& settings, std::string_view command) {
  const auto& path = settings.data.tokenizer_path;
  REQUIRE(!path.empty(), ExitCode::usage,
          "train_gpt {} needs a tokenizer (expected the path of one, found an empty "
          "TOKENIZER_PATH); give --tokenizer-path",
          command);
  Tokenizer tokenizer(path);
  REQUIRE(tokenizer.pieces() <= settings.model.vocab_size, ExitCode::config,
          "{}: has {} pieces, more than VOCAB_SIZE={}; it is not this model's tokenizer", path,
          tokenizer.pieces(), settings.model.vocab_size);
  return tokenizer;
}

}  // namespace tg
