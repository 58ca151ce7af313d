#pragma once
#include <ATen/ATen.h>

#include "ops/quantize/quantize.h"

namespace tg {

// A low-rank correction of a quantised matrix: W ≈ q·s + A·B (LQER, Zhang et al. 2024), its factors
// A [rows, r] and B [r, columns] in int8 with their scales in fp16.
struct LowRank {
  // Asymmetric: A has one scale [], B one [elements / group] for each group of consecutive
  // elements. Else each has a scale a row.
  bool asymmetric = false;
  QuantizedWeight a, b;
};

}  // namespace tg
