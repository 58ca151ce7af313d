// Never called: see ops/built.h.
#include "ops/built.h"
#include "ops/norm/linear_residual_norm_hopper.h"

namespace tg::cuda {

int linear_residual_parts(int) {
  not_built();
}
void linear_residual_norm(const LinearResidualShape&, const void*, const void*, const void*, void*,
                          float*, float*, Stream) {
  not_built();
}

}  // namespace tg::cuda
