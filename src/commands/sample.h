#pragma once
#include <vector>

#include "config/entry.h"

namespace tg {

// `train_gpt sample --init-from MODEL --prompt TEXT [--SETTING VALUE]...`: prints the prompt and
// the text that the model continues it with, as it is drawn, and on standard error the tokens per
// second. Errors: those of parse_model_command and join_alone; usage (no prompt, one that the
// tokenizer cannot encode, no tokenizer); config (its size); those of the model's file; io.
void sample_command(int argc, const char* const* argv);
// Its own flags.
std::vector<Entry> sample_options();

}  // namespace tg
