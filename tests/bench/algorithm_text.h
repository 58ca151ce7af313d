#pragma once
#include <string>

#include "ops/gemm/lt_gemm.h"

namespace tg {

// Tile, stages, cluster, split-K and the other attributes.
std::string text_of(const LtAlgorithm& algorithm);

}  // namespace tg
