#pragma once
// Settings that a resumed run must not change, because later losses depend on them: model,
// optimizer, averaging, number formats, seed, batch and token order (training data and tokenizer:
// data_identity() in checkpoint/resume.h). A resumed run may change its length, validation,
// logging, overlap, devices, kernels, checkpoints and outputs, and settings of parts that are off.
// Each setting's role says which it is.
#include <map>
#include <string>
#include <vector>

#include "config/settings.h"

namespace tg {

using FixedTexts = std::map<std::string, std::string>;  // by name

// Returns the fixed settings, and values derived from them and the number of ranks. Equivalent
// values have one text. Precondition: COMPUTE_DTYPE and FP8 are what the machine computes in
// (process/machine.h, settings_as_computed).
FixedTexts fixed_settings(const Settings& settings, int world_size);

// Returns "NAME=value, now value" for each name whose texts differ. A name missing in either map is
// no difference.
std::vector<std::string> differences(const FixedTexts& saved, const FixedTexts& now);

// `saved`: fixed_settings() of the run that wrote the checkpoint; a setting that its program did
// not know had its default value. Throws Error(config) naming every difference with both values.
void require_resumable(const std::string& checkpoint, const FixedTexts& saved,
                       const Settings& settings, int world_size);

}  // namespace tg
