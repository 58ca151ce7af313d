// Never called: see ops/built.h.
#include "ops/built.h"
#include "ops/embedding/embedding_gradient_kernel.h"
#include "ops/embedding/token_embedding_kernel.h"

namespace tg::cuda {

std::int64_t embedding_partials(std::int64_t) {
  not_built();
}
void embedding_gradient(const LookedUpRows&, float*, void*, Stream) {
  not_built();
}
void token_embedding_forward(const TokenRows&, void*, Stream) {
  not_built();
}
std::int64_t token_embedding_blocks(const TokenRows&) {
  not_built();
}
void token_embedding_backward(const TokenRows&, const TokenGradients&, Stream) {
  not_built();
}

}  // namespace tg::cuda
