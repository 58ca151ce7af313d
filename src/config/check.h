#pragma once
// Checks of ranges and combinations of settings, made before anything slow happens.
#include <string>
#include <vector>

#include "config/settings.h"

namespace tg {

// Purpose of a command. Each use reads the settings of the uses before it and some more; settings
// that a use does not read may contradict each other.
enum class SettingsUse {
  weights,   // a model's tensors: the architecture
  sampling,  // computing with them: the machine
  tasks,     // rows of EVAL_SEQ_LEN: HellaSwag, LAMBADA
  scoring,   // validation and test-time training
  training,
};

// Returns one line for each conflict. Checks ranges again, for Settings that were not parsed.
std::vector<std::string> find_conflicts(const Settings& settings, int world_size,
                                        SettingsUse use = SettingsUse::training);
// Throws one Error(config) that lists all conflicts.
void check_settings(const Settings& settings, int world_size,
                    SettingsUse use = SettingsUse::training);

// Returns one line for each setting that was given and has no effect.
std::vector<std::string> ineffective_settings(const Settings& settings, const Origins& origins);

}  // namespace tg
