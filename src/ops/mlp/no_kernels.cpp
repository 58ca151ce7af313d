// Never called: see ops/built.h.
#include "ops/built.h"
#include "ops/mlp/leaky_relu_squared_kernel.h"

namespace tg::cuda {

void leaky_relu_squared_forward(const void*, void*, std::int64_t, float, Dtype, Stream) {
  not_built();
}
void leaky_relu_squared_backward(const void*, const void*, void*, std::int64_t, float, Dtype,
                                 Stream) {
  not_built();
}
void activate(const MlpShape&, const float*, float, void*, void*, Dtype, Stream) {
  not_built();
}
void activation_backward(const MlpShape&, const void*, const float*, const void*, float, void*,
                         Dtype, Stream) {
  not_built();
}
void activate_in_fp8(const MlpShape&, const void*, float, const Fp8Copy&, void*, void*, Stream) {
  not_built();
}
void activation_backward_in_fp8(const MlpShape&, const void*, const float*, const void*, float,
                                const Fp8Copy&, void*, Stream) {
  not_built();
}

}  // namespace tg::cuda
