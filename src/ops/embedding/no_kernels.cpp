// Never called: see ops/built.h.
#include "ops/built.h"
#include "ops/embedding/embedding_kernel.h"

namespace tg::cuda {

std::int64_t embedding_partial_rows(std::int64_t) {
  not_built();
}
void embedding_gradient(const EmbeddingRows&, float*, float*, Stream) {
  not_built();
}
void token_embedding_forward(const TokenEmbeddingArgs&, void*, Stream) {
  not_built();
}
std::int64_t token_embedding_blocks(const TokenEmbeddingArgs&) {
  not_built();
}
int token_embedding_sums(const TokenEmbeddingArgs&) {
  not_built();
}
void token_embedding_backward(const TokenEmbeddingArgs&, const TokenEmbeddingGradients&, Stream) {
  not_built();
}

void learned_scale_forward(const ScaledRows&, void*, Stream) {
  not_built();
}
void learned_scale_backward(const ScaledRows&, const void*, std::int64_t, void*, float*, float*,
                            Stream) {
  not_built();
}
int learned_scale_blocks(const ScaledRows&) {
  not_built();
}

}  // namespace tg::cuda
