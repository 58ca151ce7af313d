// Never called, since no tensor here is on a GPU: see ops/attention/fused_attention.h.
#include "ops/attention/attention_backward_hopper.h"
#include "ops/built.h"

namespace tg::cuda {

void attention_backward(const AttentionShape&, const AttentionTensors&, const AttentionGradients&,
                        Dtype, Stream) {
  not_built();
}

}  // namespace tg::cuda
