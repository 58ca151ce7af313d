#include "commands/hf_config.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/escaped.h"
#include "config/derived.h"
#include "config/mode.h"
#include "config/script_names.h"
#include "config/types/text.h"

namespace tg {
namespace {

constexpr const char *kModelType = "train_gpt", *kDocumentAttention = "document_attention";

}  // namespace

nlohmann::json hf_config(const Settings& settings, const std::string& module) {
  nlohmann::json config = {
      {"model_type", kModelType},
      {"architectures", {"TrainGptForCausalLM"}},
      {"auto_map",
       {{"AutoConfig", module + ".TrainGptConfig"},
        {"AutoModelForCausalLM", module + ".TrainGptForCausalLM"}}},
      // transformers has nothing to tie: with TIE_EMBEDDINGS the model has no second table.
      {"tie_word_embeddings", false},
      {"train_seq_len", settings.run.train_seq_len.last()},
  };
  const auto add = [&]<class T>(const Setting<const T>& setting) {
    if (setting.role.is_path) return;  // of the machine that trained
    if constexpr (std::is_enum_v<T>) {
      config[setting.name] = choice_name(setting.value);
    } else if constexpr (std::is_same_v<T, CountOrAuto>) {
      if (!setting.value.automatic) config[setting.name] = setting.value.value;
    } else if constexpr (std::is_same_v<T, CountSchedule> || std::is_same_v<T, RampSchedule>) {
      config[setting.name] = value_text(setting.value);
    } else {
      config[setting.name] = setting.value;
    }
  };
  for_each_setting(settings.model, add, settings);
  if (settings.data.caseops_enabled) config["caseops_enabled"] = true;
  const bool documents = mode::segments_attention(settings);
  config[kDocumentAttention] =
      choice_name(documents ? DocumentAttentionChoice::on : DocumentAttentionChoice::off);
  if (documents) config["segment_limit"] = segment_limit(settings);
  if (documents || settings.model.gates.smear == SmearKind::gated)
    config["bos_id"] = settings.data.bos_id.value;
  return config;
}

bool is_hf_config(const nlohmann::json& config) {
  const auto type = config.find("model_type");
  return type != config.end() && *type == nlohmann::json(kModelType);
}

void refuse_foreign_config(const nlohmann::json& config, const std::string& path) {
  const auto type = config.find("model_type");
  if (type == config.end() || !type->is_string() || is_hf_config(config)) return;
  fail(ExitCode::bad_data,
       "{} describes a transformers model of type {} (expected the config.json of a run, or of "
       "train_gpt export); use that model with transformers, or, if the weights beside it are "
       "train_gpt's, move it away",
       path, escaped(type->get<std::string>(), 40));
}

// Moves values: copying deeply nested ones would overflow the stack.
nlohmann::json config_of_hf(nlohmann::json config, const std::string& folder) {
  auto settings = nlohmann::json::object();
  const auto take = [&](const std::string& name) {
    const auto found = config.find(name);
    if (found != config.end()) settings[env_name(name)] = std::move(*found);
  };
  const auto take_setting = [&](const auto& setting) { take(setting.name); };
  for_each_setting(ModelConfig(), take_setting, Settings());
  for (const auto& older : script_switches) take(std::string(older.member));
  take("train_seq_len");
  take("caseops_enabled");
  take("bos_id");
  take(kDocumentAttention);
  take("segment_limit");
  for (const char* name : {"/tokenizer.json", "/tokenizer.model"}) {
    std::error_code ignored;
    if (std::filesystem::exists(folder + name, ignored)) settings["TOKENIZER_PATH"] = folder + name;
  }
  nlohmann::json run_config;
  run_config["settings"] = std::move(settings);
  return run_config;
}

}  // namespace tg
