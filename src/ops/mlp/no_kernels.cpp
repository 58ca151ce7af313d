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

}  // namespace tg::cuda
