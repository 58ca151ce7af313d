#pragma once
#include "device/launch.h"

namespace tg::cuda {

// Gradients of looked-up rows, and their ids.
struct EmbeddingRows {
  const void* rows;           // [count, width] of `dtype`; a row is a multiple of 16 bytes
  const std::int32_t* ids;    // [count], sorted
  const std::int64_t* order;  // [count]: ids[i] belongs to rows[order[i]]
  std::int64_t count;
  int width;
  Dtype dtype;
};

// Returns the number of rows of embedding_gradient()'s workspace `partials` [., width] fp32.
std::int64_t embedding_partial_rows(std::int64_t count);

// Kernel of ops/embedding/embedding_lookup.h. Adds to the rows of `gradient` [V, width] fp32 whose
// ids occur.
void embedding_gradient(const EmbeddingRows& args, float* partials, float* gradient, Stream stream);

}  // namespace tg::cuda
