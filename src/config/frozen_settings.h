#pragma once
// What must stay as it was when a run resumes from a checkpoint: what the losses to come depend on,
// that is model, optimizer, averaging, number formats, seed, batch and order (training data and
// tokenizer: checkpoint/data_identity.h). Free are the length of the run, validation, logging,
// overlap, devices, kernels, checkpoints and outputs; and what has no effect, such as the settings
// of a part that is switched off. Which is which is part of each setting's role.
#include <map>
#include <string>
#include <vector>

#include "config/settings.h"

namespace tg {

using FrozenTexts = std::map<std::string, std::string>;  // by name

// Settings, and what follows from them and the number of ranks. Values that mean the same have one
// text. Wants COMPUTE_DTYPE and FP8 as the machine computes (process/machine.h,
// settings_as_computed).
FrozenTexts frozen_settings(const Settings& settings, int world_size);

// "NAME=value, now value" of each name whose texts differ; names that one of them lacks do not.
std::vector<std::string> differences(const FrozenTexts& saved, const FrozenTexts& now);

// `saved`: frozen_settings() of the run that wrote the checkpoint; what an older program did not
// know had its default value. Errors: config, naming every difference with both values.
void require_resumable(const std::string& checkpoint, const FrozenTexts& saved,
                       const Settings& settings, int world_size);

}  // namespace tg
