// Never called: see ops/built.h.
#include "ops/attention/qk_norm_rope_kernel.h"
#include "ops/attention/xsa_kernel.h"
#include "ops/built.h"

namespace tg::cuda {

void attention_heads_forward(const HeadShape&, const HeadOperands&, void*, void*, void*, Float,
                             Stream) {
  not_built();
}
void attention_heads_backward(const HeadShape&, const HeadOperands&, const HeadGradients&,
                              const HeadGradientsOut&, Float, Stream) {
  not_built();
}
int attention_heads_partials(const HeadShape&) {
  not_built();
}
void exclusive_attention_forward(const ExclusiveShape&, const HeadVectors&, const HeadVectors&,
                                 void*, Float, Stream) {
  not_built();
}
void exclusive_attention_backward(const ExclusiveShape&, const HeadVectors&, const HeadVectors&,
                                  const HeadVectors&, void*, void*, Float, Stream) {
  not_built();
}

}  // namespace tg::cuda
