#pragma once
#include "device/launch.h"

namespace tg::cuda {

constexpr int kMaxTokenWidth = 1024;  // a warp holds a row in registers
constexpr int kMaxGateWindow = 128;   // and the gate's window in the first access of its lanes

// Kernels of ops/embedding/token_embedding.h. Rows are multiples of 16 bytes. A null pointer leaves
// its term out.
struct TokenEmbeddingArgs {
  const void* table;  // [., width]
  const std::int64_t* ids;
  const void* bigram;         // [batch, length, width]
  const float* bigram_scale;  // []
  const float* gate;          // [width]; or
  const float* smear_weight;  // [window], and λ
  const float* smear_lambda;  // []
  // [batch, length]: of a position, where in its sequence its document ends; null: a sequence is
  // one document. Beside `gate` alone: smear_weight's documents begin with bos_id.
  const std::int32_t* document_ends;
  std::int64_t bos_id;
  int window;
  std::int64_t batch, length;
  int width, channels;  // the mean of the norm is over `channels` of the width
  Dtype dtype;
};

void token_embedding_forward(const TokenEmbeddingArgs& args, void* y, Stream stream);

// A null pointer is a gradient that is not needed.
struct TokenEmbeddingGradients {
  const void* dy;        // [batch, length, width], as are the next two
  void *dsum, *dbigram;  // of table[ids] and of the bigrams
  float* partials;  // workspace [token_embedding_blocks, token_embedding_sums]; null like `sums`
  float* sums;      // the gradient of the gate, or of smear_weight and λ; then bigram_scale's
};
std::int64_t token_embedding_blocks(const TokenEmbeddingArgs& args);
int token_embedding_sums(const TokenEmbeddingArgs& args);
void token_embedding_backward(const TokenEmbeddingArgs& args,
                              const TokenEmbeddingGradients& gradients, Stream stream);

}  // namespace tg::cuda
