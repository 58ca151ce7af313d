#pragma once
#include "device/launch.h"

namespace tg::cuda {

// Gradients of looked up rows, by id.
struct LookedUpRows {
  const void* rows;           // [count, width], whole packs of 16 bytes a row
  const std::int32_t* ids;    // [count], ascending
  const std::int64_t* order;  // [count]: ids[i] stands at row order[i]
  std::int64_t count;
  int width;
  Float number;
};

// Rows of `width` fp32 that embedding_gradient needs to work in.
std::int64_t embedding_partials(std::int64_t count);

// See embedding_lookup.h. Writes the rows of `gradient` whose id occurs.
void embedding_gradient(const LookedUpRows& of, float* partials, void* gradient, Stream stream);

}  // namespace tg::cuda
