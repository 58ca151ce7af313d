#pragma once
#include <cstdint>

#include "config/settings.h"
#include "model/parameters.h"

namespace tg {

// Sets every parameter to its initial value as its row says (ParameterPart::initial), drawn from
// the CPU generator of `seed` in the order in which the Python script draws (Recipe::draws), so
// that the same seed gives the same weights (to the last bits of the QR).
// `recipe`: recipe_of() the settings; auto: of the model alone.
void initialize(ParameterTable& table, const ModelConfig& config, std::int64_t seed,
                RecipeChoice recipe = RecipeChoice::automatic);

}  // namespace tg
