#pragma once
#include <string>

#include "config/settings.h"

namespace tg {

// `train_gpt export --hf DIR --init-from FILE [--config FILE]... [--SETTING VALUE]...`: export_hf()
// with the model settings in the config.json beside FILE, which flags, environment and --config
// files override, and a line on standard output. Errors: usage; bad_data (that config.json), those
// of the settings and of export_hf.
void export_command(int argc, const char* const* argv);

// Writes the weights of INIT_FROM (safetensors, torch.save or artifact), in fp32, to a folder that
// transformers' AutoModelForCausalLM.from_pretrained(trust_remote_code=True) reads: config.json,
// generation_config.json, model.safetensors ("model." and the unbanked names),
// modeling_train_gpt.py and, unless TOKENIZER_PATH is empty, that file as tokenizer.model. Only the
// model's settings, TRAIN_SEQ_LEN, TOKENIZER_PATH and INIT_FROM matter. Returns what it wrote, in
// one line. Errors: cannot_create (`folder` is not empty or cannot be created), config (settings),
// bad_data (the weights do not fit them), io, those of the readers.
std::string export_hf(const Settings& settings, const std::string& folder);

}  // namespace tg
