#pragma once
#include <cstdint>
#include <vector>

#include "model/draws.h"
#include "model/parameters.h"

namespace tg {

// Initialises every parameter as ParameterPart::initial says, tied rows (Update::tied_to) as the
// rows that they are tied to. Draws from a CPU generator with
// `seed` in the order of the Python script (ModelSpec::draws), so that one seed gives the script's
// weights (up to the last bits of the QR).
void initialize(ParameterTable& table, const std::vector<Draw>& draws, std::int64_t seed);

}  // namespace tg
