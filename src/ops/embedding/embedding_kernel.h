#pragma once
#include "device/launch.h"

namespace tg::cuda {

constexpr int kMaxTokenWidth = 1024;  // a warp holds a row in registers
constexpr int kMaxSmearWindow = 128;  // columns of the gate's input; in the first pack of each lane

// Arguments of the kernels of ops/embedding/token_embedding.h. Row sizes are multiples of 16 bytes.
// A null pointer omits its term.
struct TokenEmbeddingArgs {
  const void* table;  // [., width]
  const std::int64_t* ids;
  const void* bigram;         // [batch, length, width]
  const float* bigram_scale;  // []
  const float* gate;          // [width]: smear(); excludes the next two
  const float* smear_weight;  // [window]: gated_smear()'s w
  const float* smear_lambda;  // []: gated_smear()'s λ
  // [batch, length]: for each position, the end of its document in its sequence; null: a sequence
  // is one document. Used only with `gate`: with smear_weight, documents begin with bos_id.
  const std::int32_t* document_ends;
  std::int64_t bos_id;
  int window;
  std::int64_t batch, length;
  int width, channels;  // the norm's mean is over `channels`, without padding
  Dtype dtype;
};

void token_embedding_forward(const TokenEmbeddingArgs& args, void* y, Stream stream);

// Arguments of the backward kernels. Null: the gradient is not needed.
struct TokenEmbeddingGradients {
  const void* dy;             // [batch, length, width], like dsum and dbigram
  void *dsum, *dbigram;       // gradients of table[ids] and of the bigrams
  float* partials = nullptr;  // [CTAs, token_embedding_sums()]: set by the launcher
  float* sums;  // gradients of the gate, or of smear_weight and λ, then of bigram_scale; or null
};
int token_embedding_sums(const TokenEmbeddingArgs& args);
void token_embedding_backward(const TokenEmbeddingArgs& args, TokenEmbeddingGradients gradients,
                              const Workspace& workspace, Stream stream);

// Gradients of looked-up rows, and their ids.
struct EmbeddingRows {
  const void* rows;           // [count, width] of `dtype`; a row is a multiple of 16 bytes
  const std::int32_t* ids;    // [count], sorted
  const std::int64_t* order;  // [count]: ids[i] belongs to rows[order[i]]
  std::int64_t count;
  int width;
  Dtype dtype;
};

// Kernel of ops/embedding/embedding_lookup.h. Adds to the rows of `gradient` [V, width] fp32 whose
// ids occur.
void embedding_gradient(const EmbeddingRows& args, float* gradient, const Workspace& workspace,
                        Stream stream);

// Kernels of ops/embedding/learned_scale.h: x [rows, width] contiguous, rows of whole packs of 16
// bytes; scale [] on the device.
struct ScaledRows {
  const void* x;
  const float* scale;
  std::int64_t rows;
  int width;
  Dtype dtype;
};
void learned_scale_forward(const ScaledRows& in, void* out, Stream stream);
// `dy`: rows with `dy_stride` elements between their beginnings; dx [rows, width]; dscale [].
void learned_scale_backward(const ScaledRows& in, const void* dy, std::int64_t dy_stride, void* dx,
                            float* dscale, const Workspace& workspace, Stream stream);

}  // namespace tg::cuda
