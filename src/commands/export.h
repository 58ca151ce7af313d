#pragma once
#include <string>

#include "config/setting.h"
#include "config/settings.h"

namespace tg {

// Its own flags.
struct ExportOptions {
  std::string hf;

  template <class Self, class Line>
  static void visit(Self& s, const Line& line) {
    line("hf", s.hf, anything, role::option.path(),
         "folder to write for transformers; needed, new or empty");
  }
};

// `train_gpt export --hf DIR --init-from MODEL [--SETTING VALUE]...`: export_hf(), and a line on
// standard output. Errors: those of parse_model_command and of export_hf; usage (no DIR).
void export_command(int argc, const char* const* argv);

// Writes the weights of INIT_FROM (safetensors, torch.save or artifact), in fp32, to a folder that
// transformers' AutoModelForCausalLM.from_pretrained(trust_remote_code=True) reads: config.json,
// generation_config.json, model.safetensors ("model." and the unbanked names), the file of hf/ that
// computes the recipe's model and, unless TOKENIZER_PATH is empty, that file, a SentencePiece model
// as tokenizer.model. Only the model's settings, TRAIN_SEQ_LEN, TOKENIZER_PATH and INIT_FROM
// matter. Returns what it wrote, in one line. Errors: cannot_create (`folder` is not empty or
// cannot be created), io, those of trained_model.
std::string export_hf(const Settings& settings, const std::string& folder);

}  // namespace tg
