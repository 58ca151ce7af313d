#pragma once
// The config.json of a model for transformers.
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "config/settings.h"

namespace tg {

// Returns the config.json that the files of hf/ read: the model's settings in lower case,
// train_seq_len, and bos_id if the gated smear reads it. `module`: the file of hf/ with its
// classes. Precondition: BOS_ID and ROPE_LONGEST are resolved (resolve_bos_id,
// resolve_rope_longest).
nlohmann::json hf_config(const Settings& settings, const std::string& module);

// Whether export or, of such a model, transformers wrote it.
bool is_hf_config(const nlohmann::json& config);
// Refuses the config.json of another transformers model and names its type; `path` is for the
// message. Errors: bad_data.
void refuse_foreign_config(const nlohmann::json& config, const std::string& path);
// The settings in such a file, in the form of a run's config.json. TOKENIZER_PATH is the
// tokenizer.model in its `folder`, where there is one.
nlohmann::json config_of_hf(nlohmann::json config, const std::string& folder);

}  // namespace tg
