#include "ops/kernels.h"

#include <cassert>

namespace tg {

bool kernels_built() {
  return false;
}

at::Tensor leaky_relu_squared_forward_cuda(const at::Tensor&, double) {
  assert(!"built without kernels");
  return {};
}
at::Tensor leaky_relu_squared_backward_cuda(const at::Tensor&, const at::Tensor&, double) {
  assert(!"built without kernels");
  return {};
}

}  // namespace tg
