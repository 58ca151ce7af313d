#pragma once
#include <cstdint>

#include "config/settings.h"
#include "model/parameters.h"

namespace tg {

// Sets every parameter to its initial value, drawn from the CPU generator of `seed` in the order in
// which the Python script draws, so that the same seed gives the same weights (to the last bits of
// the QR). Two recipes: the record's (orthogonal banks, zero output projections), and with
// VALUE_RESIDUAL=blend, which only the GPT-124M speedrun has, that script's (torch's defaults, zero
// output projections), where what that script does not have begins as in the record, drawn last.
void initialize(ParameterTable& table, const ModelConfig& config, std::int64_t seed,
                double tied_embed_init_std);

}  // namespace tg
