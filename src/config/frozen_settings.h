#pragma once
// What must stay as it was when a run resumes from a checkpoint: what the losses to come depend on,
// that is model, data, optimizer, seed, batch and order. Free are the length of the run,
// validation, logging, overlap, devices, checkpoints and outputs.
#include <map>
#include <string>

#include "config/settings.h"

namespace tg {

// By name as text: settings, and the micro-batches that follow from them and the number of ranks.
std::map<std::string, std::string> frozen_settings(const Settings& settings, int world_size);

// `saved`: frozen_settings() of the run that wrote the checkpoint; what an older program did not
// know had its default value. Errors: config, naming every difference with both values.
void require_resumable(const std::string& checkpoint,
                       const std::map<std::string, std::string>& saved, const Settings& settings,
                       int world_size);

}  // namespace tg
