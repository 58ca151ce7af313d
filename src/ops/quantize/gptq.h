#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <optional>

#include "ops/quantize/lqer.h"
#include "ops/quantize/quantize.h"

namespace tg {

// A matrix that GPTQ (Frantar et al. 2023) quantised: W ≈ q·s, q [rows, columns] within
// ±(2^(bits−1) − 1), s [rows]; with a correction W ≈ q·s + A·B.
struct GptqWeight {
  QuantizedWeight weight;
  std::int64_t bits;
  std::optional<LowRank> correction;
};

}  // namespace tg
