#pragma once
#include "device/launch.h"

namespace tg::cuda {

constexpr int kMaxTokenWidth = 1024;  // a warp has a row in registers

// See token_embedding.h. Rows are whole packs of 16 bytes; null: left out.
struct TokenRows {
  const void* table;  // [., width]
  const std::int64_t* ids;
  const void* bigram;         // [batch, length, width]
  const float* bigram_scale;  // []
  const float* gate;          // [width]
  std::int64_t batch, length;
  int width;
  Float number;
};

void token_embedding_forward(const TokenRows& of, void* y, Stream stream);

// Null: not wanted. [batch, length, width] unless said otherwise; dsum is the gradient of
// table[ids].
struct TokenGradients {
  const void* dy;
  void *dsum, *dbigram;
  float* partials;  // to work in: [token_embedding_blocks, width + 1], for
  float* sums;      // [width + 1]: the gate's gradient and the scale's behind it
};
std::int64_t token_embedding_blocks(const TokenRows& of);
void token_embedding_backward(const TokenRows& of, const TokenGradients& gradients, Stream stream);

}  // namespace tg::cuda
