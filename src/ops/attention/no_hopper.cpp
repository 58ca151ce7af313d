// Never called: see ops/built.h.
#include "ops/attention/kernels/attention_backward_hopper.h"
#include "ops/attention/kernels/qkv_proj_norm_rope_hopper.h"
#include "ops/built.h"

namespace tg::cuda {

void qkv_proj_norm_rope(const QkvShape&, int, const void*, const void*, const Fp8Gemm&,
                        const QkNormRopeInputs&, void*, float*, Dtype, Stream) {
  not_built();
}
void attention_backward(const AttentionShape&, const AttentionTensors&, const AttentionGradients&,
                        Dtype, Stream) {
  not_built();
}

}  // namespace tg::cuda
