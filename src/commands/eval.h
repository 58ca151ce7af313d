#pragma once
#include <vector>

#include "config/entry.h"

namespace tg {

// `train_gpt eval --init-from MODEL [--SETTING VALUE]...`: logs every score of a trained model.
// Each rank of several calls it. Errors: those of parse_model_command and join_ranks; those of the
// model's file (config, where it does not fit the settings), the data and the tokenizer; bad_data
// (the audit's counts differ).
void eval_command(int argc, const char* const* argv);
// Its own flags.
std::vector<Entry> eval_options();

}  // namespace tg
