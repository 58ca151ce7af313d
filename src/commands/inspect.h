#pragma once
#include <string>

#include "config/types/choices.h"

namespace tg {

// `train_gpt inspect [--quantization] [--weights raw|ema] MODEL`: prints inspect_text. Errors:
// usage, those of inspect_text, io (standard output).
void inspect_command(int argc, const char* const* argv);

// What a model's file or checkpoint is, and of each tensor its name, dtype, shape, elements, bytes,
// and the minimum, maximum and root mean square of its finite elements; totals by dtype; with
// `quantization` quantization_text; the settings in the config.json of its run, if that is there.
// Errors: those of find_model() and of reading it; usage (`quantization` of an artifact).
std::string inspect_text(const std::string& path, bool quantization = false,
                         WeightsChoice weights = WeightsChoice::automatic);

}  // namespace tg
