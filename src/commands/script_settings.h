#pragma once
#include <vector>

#include "config/parse.h"
#include "model_io/model_path.h"

namespace tg {

// The settings of a checkpoint of the GPT-124M script of 2024: sizes from the shapes of its weights
// (heads have 128 channels), the rest as the recipe speedrun has it. Empty where `model` is no such
// file. Errors: as load_weights() and refuse_foreign_names().
std::vector<Assignment> script_settings(const ModelPath& model);

}  // namespace tg
