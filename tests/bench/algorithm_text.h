#pragma once
#include <string>

#include "ops/gemm/lt_gemm.h"

namespace tg {

// Returns the tile, stages, cluster shape, split-K and other attributes as text.
std::string text_of(const LtAlgorithm& algorithm);

}  // namespace tg
