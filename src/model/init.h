#pragma once
#include <cstdint>
#include <vector>

#include "model/draws.h"
#include "model/parameters.h"

namespace tg {

// Sets every parameter to its initial value as its row says (ParameterPart::initial), drawn from
// the CPU generator of `seed` in the order in which the Python script draws (ModelSpec::draws), so
// that the same seed gives the same weights (to the last bits of the QR).
void initialize(ParameterTable& table, const std::vector<Draw>& draws, std::int64_t seed);

}  // namespace tg
