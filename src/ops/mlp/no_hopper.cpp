// Never called: see ops/built.h.
#include "ops/built.h"
#include "ops/mlp/fp8_mlp_hopper.h"
#include "ops/mlp/mlp_hopper.h"

namespace tg::cuda {

std::int64_t mlp_sign_bytes(const MlpShape&) {
  not_built();
}
void mlp_up(const MlpShape&, const void*, const void*, const float*, float, void*, void*, Dtype,
            Stream) {
  not_built();
}
void mlp_down_backward(const MlpShape&, const void*, const void*, const float*, const void*,
                       const void*, float, void*, Dtype, Stream) {
  not_built();
}
std::int64_t fp8_mlp_sign_bytes(const MlpShape&) {
  not_built();
}
void fp8_mlp_up(const MlpShape&, const void*, const void*, const Fp8Gemm&, float, void*, void*,
                Stream) {
  not_built();
}
void fp8_mlp_down_backward(const MlpShape&, const void*, const void*, const Fp8Gemm&, const void*,
                           const float*, const void*, float, void*, Stream) {
  not_built();
}

}  // namespace tg::cuda
