#pragma once
#include <string>

#include "config/types/choices.h"

namespace tg {

// `train_gpt inspect [--quantization [--artifact FILE]] [--weights raw|ema] MODEL`: prints
// inspect_text. Errors: usage, those of inspect_text, io (standard output).
void inspect_command(int argc, const char* const* argv);

struct InspectOptions {
  bool quantization = false;  // prints quantization_text
  std::string artifact = {};  // for it: of this model
  WeightsChoice weights = WeightsChoice::automatic;
};

// What a model's file or checkpoint is, and of each tensor its name, dtype, shape, elements, bytes,
// and the minimum, maximum and root mean square of its finite elements; totals by dtype; what
// `options` ask for; the settings in the config.json of its run, if that is there. Errors: those of
// find_model() and of reading it; usage (`quantization` of an artifact); missing_input (no
// config.json, with `artifact`).
std::string inspect_text(const std::string& path, const InspectOptions& options = {});

}  // namespace tg
