#pragma once
// What an artifact of each format holds before it is packed.
#include <ATen/ATen.h>

#include "weights/pickle_value.h"

namespace tg::fuzz {

inline PickleDict int6_value() {
  PickleDict weights, metadata, type, all;
  type.add("type", "int6");
  weights.add("a.q", at::ones({2, 3}, at::kChar));
  weights.add("a.scale", at::ones({2}, at::kHalf));
  weights.add("b", at::ones({3}, at::kHalf));
  metadata.add("a", type);
  metadata.add("b", "passthrough");
  all.add("w", weights);
  all.add("m", metadata);
  return all;
}

inline PickleDict int8_value() {
  PickleDict quantized, scales, passthrough, all;
  quantized.add("a", at::ones({2, 3}, at::kChar));
  scales.add("a", at::ones({2}, at::kHalf));
  quantized.add("s", at::ones({2, 3, 2}, at::kChar));
  scales.add("s", at::ones({}, at::kFloat));
  passthrough.add("b", at::ones({3}, at::kHalf));
  all.add("__quant_format__", "int8_clean_per_row_v1");
  all.add("quantized", quantized);
  all.add("scales", scales);
  all.add("dtypes", PickleDict());
  all.add("passthrough", passthrough);
  return all;
}

}  // namespace tg::fuzz
