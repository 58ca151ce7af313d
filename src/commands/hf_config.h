#pragma once
// config.json of models for transformers.
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "config/settings.h"

namespace tg {

// Returns the config.json that the files of hf/ read: the model's settings in lower case,
// train_seq_len, and bos_id if the gated smear reads it. `module`: the file of hf/ with its
// classes. Precondition: BOS_ID and ROPE_LONGEST are resolved (resolve_bos_id,
// resolve_rope_longest).
nlohmann::json hf_config(const Settings& settings, const std::string& module);

// Returns whether export wrote `config`, or transformers for an exported model.
bool is_hf_config(const nlohmann::json& config);
// Throws Error(bad_data), naming the type, if `config` is another transformers model's. `path` is
// for the message.
void refuse_foreign_config(const nlohmann::json& config, const std::string& path);
// Returns the settings of a config for which is_hf_config() is true, in the form of a run's
// config.json. TOKENIZER_PATH is set to the tokenizer.model or tokenizer.json in
// `folder`, if there is one.
nlohmann::json config_of_hf(nlohmann::json config, const std::string& folder);

}  // namespace tg
