#include <fmt/format.h>

#include <cassert>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/error.h"
#include "comm/communicator.h"
#include "commands/commands.h"
#include "commands/hf_config.h"
#include "commands/hf_tokenizer.h"
#include "commands/model_card.h"
#include "commands/model_file.h"
#include "commands/print.h"
#include "config/check.h"
#include "config/derived.h"
#include "config/settings.h"
#include "data/vocabulary.h"
#include "files/atomic_file.h"
#include "files/file.h"
#include "files/folder.h"
#include "files/json_file.h"
#include "model_io/model_files.h"
#include "model_io/model_path.h"
#include "model_io/stored_record.h"
#include "modeling_speedrun_43.h"
#include "modeling_speedrun_89.h"
#include "modeling_train_gpt.h"
#include "process/machine.h"
#include "recipes/recipe.h"
#include "text/bpe_vocabulary.h"
#include "train_gpt_common.h"
#include "weights/safetensors/safetensors.h"

namespace tg {
namespace {

namespace fs = std::filesystem;

constexpr const char* help =
    "train_gpt export: writes a model for other programs.\n"
    "\n"
    "  train_gpt export --hf DIR --init-from MODEL [--weights raw|ema] [--SETTING VALUE]...\n"
    "\n"
    "DIR, which is created or empty, receives what transformers' AutoModelForCausalLM\n"
    ".from_pretrained(DIR, trust_remote_code=True) reads: README.md, a model card whose licence\n"
    "is left open, config.json, generation_config.json,\n"
    "model.safetensors (fp32), train_gpt_common.py and, by RECIPE, modeling_train_gpt.py,\n"
    "modeling_speedrun_43.py or modeling_speedrun_89.py;\n"
    "and the tokenizer, a SentencePiece model as tokenizer.model, GPT-2's as the tokenizer.json\n"
    "that AutoTokenizer reads. What transformers saves of this model is a MODEL again.\n"
    "\n";

// A file of hf/, with the classes TrainGpt, TrainGptConfig and TrainGptForCausalLM.
struct Modeling {
  std::string module;  // file name without .py
  const char* source;
};

Modeling modeling_of(RecipeChoice recipe) {
  switch (recipe) {
    case RecipeChoice::record:
    case RecipeChoice::speedrun:
    case RecipeChoice::last_record:
      return {"modeling_train_gpt", kModelingTrainGpt};
    case RecipeChoice::speedrun_43:
      return {"modeling_speedrun_43", kModelingSpeedrun43};
    case RecipeChoice::speedrun_89:
    case RecipeChoice::speedrun_91:
      return {"modeling_speedrun_89", kModelingSpeedrun89};
    case RecipeChoice::automatic:
      break;
  }
  assert(!"RECIPE=auto is resolved where settings are read");
  std::abort();
}

void make_empty_folder(const std::string& folder) {
  create_folders(folder, "; choose another folder");
  std::error_code error;
  const bool empty = fs::is_empty(folder, error);
  REQUIRE(!error, ExitCode::cannot_create, "{}: cannot be read ({}); choose another folder", folder,
          error.message());
  REQUIRE(empty, ExitCode::cannot_create,
          "{}: not empty (expected a new or an empty folder); choose another one", folder);
}

// Writes the files that `help` lists, with weights named "model." and the unbanked names. `model`:
// what INIT_FROM stands for. Only the model's settings, TRAIN_SEQ_LEN, TOKENIZER_PATH and INIT_FROM
// matter. Returns a line about what it wrote. Throws Error: cannot_create (`folder` is not empty or
// cannot be created), io; and what trained_model throws.
std::string export_hf(const Settings& settings, const ModelPath& model, const std::string& folder) {
  Communicator alone;
  const auto spec = model_spec(settings);
  auto [table, record] = trained_model(spec, settings, Machine{}, alone);  // fp32, on the CPU
  record.stage = stage_to_compute(spec.plan, record);
  NamedTensors tensors;
  std::int64_t parameters = 0;
  for (const auto& part : unbanked(table)) {
    tensors.emplace_back("model." + part.name, part.value);
    parameters += part.value.numel();
  }
  ModelFacts facts{.record = record, .parameters = parameters};
  auto generation = nlohmann::json::object();
  std::vector<std::pair<std::string, std::string>> tokenizer_files;  // name, content
  const auto& tokenizer_path = settings.data.tokenizer_path;
  if (!tokenizer_path.empty()) {
    const auto tokenizer =
        make_tokenizer(settings.data, static_cast<int>(settings.model.vocab_size));
    facts.bos_id = tokenizer.bos_id();
    if (facts.bos_id >= 0) generation["bos_token_id"] = facts.bos_id;
    constexpr std::int64_t kMaxSize = 1 << 30;
    auto bytes = read_whole_file(tokenizer_path, kMaxSize);
    const bool is_json = is_tokenizer_json(bytes);
    const auto vocabulary =
        is_json ? read_tokenizer_json(bytes, tokenizer_path)
                : read_bpe_vocabulary(bytes, tokenizer_path, settings.data.tokenizer_pattern);
    facts.auto_tokenizer = vocabulary.has_value();
    if (vocabulary) {
      tokenizer_files = {
          {"tokenizer.json", is_json ? std::move(bytes) : hf_tokenizer(*vocabulary).dump()},
          {"tokenizer_config.json", hf_tokenizer_config(*vocabulary, facts.bos_id).dump(2)}};
    } else {
      tokenizer_files = {{"tokenizer.model", std::move(bytes)}};
    }
  }

  make_empty_folder(folder);
  std::string tokenizer_names;
  for (const auto& [name, content] : tokenizer_files) {
    write_file_atomically(folder + "/" + name, content);
    tokenizer_names += ", " + name;
  }
  save_safetensors(folder + "/model.safetensors", tensors, {{"format", "pt"}});
  const auto [module, source] = modeling_of(settings.model.recipe);
  write_file_atomically(folder + "/train_gpt_common.py", kTrainGptCommon);
  write_file_atomically(fmt::format("{}/{}.py", folder, module), source);
  write_json_file(folder + "/generation_config.json", generation);
  write_file_atomically(folder + "/README.md", model_card(facts, model));
  // Written last, since transformers reads no folder without it.
  Settings exported = settings;
  exported.model.mtp_num_heads = 0;
  auto config = hf_config(exported, module);
  config[kRecordKey] = record_json(record);
  write_json_file(folder + "/config.json", config);
  return fmt::format(
      "{}: README.md, config.json, generation_config.json, model.safetensors ({} parameters), "
      "train_gpt_common.py, {}.py{}",
      folder, parameters, module, tokenizer_names);
}

}  // namespace

void export_command(int argc, const char* const* argv) {
  ExportOptions options;
  auto parsed = parse_model_command(argc, argv, help, entries_of(options));
  if (!parsed) return;
  require_flag(!options.hf.empty(), "export", "--hf DIR");
  auto& settings = parsed->settings;
  check_settings(settings, /*world_size=*/1, SettingsUse::weights);
  resolve_bos_id(settings);
  resolve_rope_longest(settings, /*world_size=*/1);
  Communicator alone;
  const auto model = choose_model(settings, alone);
  print_text(export_hf(settings, model, options.hf) + "\n");
}

}  // namespace tg
