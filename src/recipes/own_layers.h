#pragma once
// Checks of recipes whose layers differ from each other, so that their number is fixed.
#include <string>
#include <vector>

#include "config/settings.h"

namespace tg {

// Throws Error(config) for model settings that such a recipe would ignore: all but `free` must have
// the values of `set_defaults`. Also for NUM_KV_HEADS other than NUM_HEADS, for heads whose
// channels are no multiple of 4, and for an UNTIE_EMBEDDINGS_AT that updates no embeddings.
void require_own_layers(const Settings& settings, void (*set_defaults)(Settings&),
                        const std::vector<std::string>& free);

}  // namespace tg
