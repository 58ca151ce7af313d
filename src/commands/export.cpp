#include "commands/export.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <type_traits>
#include <vector>

#include "artifact/read_artifact.h"
#include "base/error.h"
#include "config/check.h"
#include "config/parse.h"
#include "config/text.h"
#include "data/file.h"
#include "data/tokenizer.h"
#include "model/parameters.h"
#include "modeling_train_gpt.h"
#include "store/atomic_file.h"
#include "store/byte_source.h"
#include "store/compressed.h"
#include "store/jsonl.h"
#include "store/safetensors.h"
#include "store/weights_file.h"

namespace tg {
namespace {

namespace fs = std::filesystem;

constexpr const char* help =
    "train_gpt export: writes a model for other programs.\n"
    "\n"
    "  train_gpt export --hf DIR --init-from FILE [--config FILE]... [--SETTING VALUE]...\n"
    "\n"
    "DIR, which is created or empty, receives what transformers' AutoModelForCausalLM\n"
    ".from_pretrained(DIR, trust_remote_code=True) reads: config.json, generation_config.json,\n"
    "model.safetensors (fp32) and modeling_train_gpt.py; and the tokenizer as tokenizer.model,\n"
    "unless TOKENIZER_PATH is empty. FILE is a run's final_model.safetensors, .pt or .ptz. The\n"
    "architecture is that of the config.json beside it, which settings given here override.\n";

// The value as a --config file has it.
std::string json_text(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.is_object() ? "{...}" : value.dump();
  std::vector<std::string> items;
  for (const auto& item : value) items.push_back(item.is_array() ? "[...]" : json_text(item));
  return value_text(items);
}

// Of final_model.2.pt, which a later run of the same RUN_ID numbered aside, it is config.2.json.
fs::path config_beside(const fs::path& weights) {
  const auto name = weights.filename().string();
  const auto dot = name.find('.'), end = std::min(name.find('.', dot + 1), name.size());
  const auto label = dot < end ? name.substr(dot, end - dot) : "";
  const bool numbered =
      label.size() > 1 && label.find_first_not_of("0123456789", 1) == std::string::npos;
  return weights.parent_path() / ("config" + (numbered ? label : "") + ".json");
}

// Sets what is still at its default to the value in the run's config.json, if that is there.
void take_settings_of_run(ParseResult& parsed) {
  const auto path = config_beside(parsed.settings.runtime.init_from).string();
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return;
  constexpr std::int64_t kMaxSize = 1 << 20;
  const auto config = nlohmann::json::parse(read_whole_file(path, kMaxSize), nullptr,
                                            /*allow_exceptions=*/false);
  const auto values = config.find("settings");
  REQUIRE(config.is_object() && values != config.end() && values->is_object(), ExitCode::bad_data,
          "{}: not the config.json of a run; move it away from {}, or that to its own", path,
          parsed.settings.runtime.init_from);
  parsed.settings.visit([&](const char* name, auto& member, const Limit& limit, const char*) {
    using T = std::remove_reference_t<decltype(member)>;
    const auto found = values->find(env_name(name));
    if (found == values->end() || parsed.origins.at(name) != "default") return;
    T value{};
    const auto text = json_text(*found);
    REQUIRE(read_value(text, value) && is_allowed(value, limit), ExitCode::bad_data,
            "{}: {}='{}': expected {}", path, env_name(name), text.substr(0, 200),
            expected_text<T>(limit));
    member = std::move(value);
  });
}

// Not those of the batch, which may suit another number of ranks.
void check_model_settings(const Settings& settings) {
  Settings checked;
  checked.model = settings.model;
  checked.run.train_seq_len = settings.run.train_seq_len;
  checked.run.eval_seq_len = 0;
  checked.run.train_batch_tokens = checked.run.val_batch_size = 8 * settings.run.train_seq_len;
  check_settings(checked, /*world_size=*/1);
}

bool is_artifact(const std::string& path) {
  constexpr size_t kMagic = 8;
  const FileSource source(path);
  if (!source.holds(0, kMagic)) return false;
  const auto begin = source.read(0, kMagic);
  // A safetensors file, too, may begin with zlib's two bytes: they are its header's length, whose
  // upper half is zero.
  const bool small_number = begin.ends_with(std::string(4, '\0'));
  return is_xz(begin) || (is_zlib(begin) && !small_number);
}

ParameterTable read_weights(const ModelConfig& model, const std::string& path) {
  auto table = make_parameters(model, at::kFloat, at::kCPU);
  NamedTensors from, into;
  if (is_artifact(path)) {
    from = read_artifact(path, table.element_count());
    for (const auto& part : unbanked(table)) into.emplace_back(part.name, part.value);
  } else {
    from = load_weights(path);
    // Of training only; not every file has them.
    std::erase_if(from, [](const auto& named) { return named.first.starts_with("mtp_heads."); });
    into = table.named_values();
  }
  copy_into(from, into, path);
  return table;
}

nlohmann::json hf_config(const Settings& settings) {
  nlohmann::json config = {
      {"model_type", "train_gpt"},
      {"architectures", {"TrainGptForCausalLM"}},
      {"auto_map",
       {{"AutoConfig", "modeling_train_gpt.TrainGptConfig"},
        {"AutoModelForCausalLM", "modeling_train_gpt.TrainGptForCausalLM"}}},
      // transformers has nothing to tie: where TIE_EMBEDDINGS is set, the model has no second
      // table.
      {"tie_word_embeddings", false},
      {"train_seq_len", settings.run.train_seq_len},
  };
  settings.model.visit([&](const char* name, const auto& value, const Limit&, const char*) {
    if constexpr (std::is_enum_v<std::remove_cvref_t<decltype(value)>>) {
      config[name] = choice_name(value);
    } else {
      config[name] = value;
    }
  });
  return config;
}

void make_empty_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  const bool empty = !error && fs::is_empty(folder, error);
  REQUIRE(!error, ExitCode::cannot_create, "{}: cannot be created ({}); choose another folder",
          folder, error.message());
  REQUIRE(empty, ExitCode::cannot_create,
          "{}: not empty (expected a new or an empty folder); choose another one", folder);
}

struct Arguments {
  std::vector<const char*> settings;  // argv for parse_settings
  std::string folder;
  bool help = false;
};

Arguments read_arguments(int argc, const char* const* argv) {
  Arguments read{.settings = {argv[0]}, .folder = ""};
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--help" || word == "-h") {
      read.help = true;
    } else if (word.starts_with("--hf=")) {
      read.folder = word.substr(5);
    } else if (word == "--hf" && i + 1 < argc) {
      read.folder = argv[++i];
    } else {
      read.settings.push_back(argv[i]);
    }
  }
  return read;
}

}  // namespace

std::string export_hf(const Settings& settings, const std::string& folder) {
  check_model_settings(settings);
  Settings exported = settings;
  exported.model.mtp_num_heads = 0;
  const auto table = read_weights(exported.model, settings.runtime.init_from);
  NamedTensors tensors;
  for (const auto& part : unbanked(table)) tensors.emplace_back("model." + part.name, part.value);
  nlohmann::json generation = {{"use_cache", false}};
  std::string tokenizer_model;
  const auto& tokenizer_path = settings.data.tokenizer_path;
  if (!tokenizer_path.empty()) {
    const Tokenizer tokenizer(tokenizer_path, static_cast<int>(settings.model.vocab_size));
    if (tokenizer.bos_id() >= 0) generation["bos_token_id"] = tokenizer.bos_id();
    constexpr std::int64_t kMaxSize = 1 << 30;
    tokenizer_model = read_whole_file(tokenizer_path, kMaxSize);
  }

  make_empty_folder(folder);
  if (!tokenizer_path.empty()) write_file_atomically(folder + "/tokenizer.model", tokenizer_model);
  save_safetensors(folder + "/model.safetensors", tensors, {{"format", "pt"}});
  write_file_atomically(folder + "/modeling_train_gpt.py", kModelingTrainGpt);
  write_json_file(folder + "/generation_config.json", generation);
  // The last, since transformers reads no folder without it.
  write_json_file(folder + "/config.json", hf_config(exported));
  return fmt::format(
      "{}: config.json, generation_config.json, model.safetensors ({} parameters), "
      "modeling_train_gpt.py{}",
      folder, table.element_count(), tokenizer_path.empty() ? "" : ", tokenizer.model");
}

void export_command(int argc, const char* const* argv) {
  const auto arguments = read_arguments(argc, argv);
  std::string text = help;
  if (!arguments.help) {
    auto parsed =
        parse_settings(static_cast<int>(arguments.settings.size()), arguments.settings.data());
    const bool from_file = parsed.origins.at("init_from") != "default";
    REQUIRE(from_file && !arguments.folder.empty(), ExitCode::usage,
            "train_gpt export: expected --hf DIR and --init-from FILE, found no {}; see train_gpt "
            "export --help",
            from_file ? "--hf" : "--init-from");
    take_settings_of_run(parsed);
    text = export_hf(parsed.settings, arguments.folder) + "\n";
  }
  const bool written = std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  REQUIRE(written, ExitCode::io, "standard output cannot be written ({})", std::strerror(errno));
}

}  // namespace tg
