#pragma once
// Recipes of the GPT-124M speedrun: common defaults, and checks of the records from 43 on, whose
// layers differ from each other, so that their number is fixed.
#include <string>
#include <vector>

#include "config/settings.h"

namespace tg {

// Sets the settings that all scripts of the speedrun have in common.
void set_speedrun_defaults(Settings& settings);
// Sets the settings that the scripts of the records from 43 on have in common. Their windows change
// at step `second`, at step `third`, and with the extension.
void set_common_defaults(Settings& settings, double second, double third, double extension);

// Throws Error(config) for model settings that such a recipe would ignore: all but those that every
// such recipe follows, and `free`, must have the values of `set_defaults`. Also for NUM_KV_HEADS
// other than NUM_HEADS, for heads whose channels are no multiple of 4, and for an
// UNTIE_EMBEDDINGS_AT that updates no embeddings.
void require_own_layers(const Settings& settings, void (*set_defaults)(Settings&),
                        const std::vector<std::string>& free);

}  // namespace tg
