// Never called: see ops/built.h.
#include "ops/built.h"
#include "ops/norm/input_gradient_hopper.h"
#include "ops/norm/linear_residual_norm_hopper.h"

namespace tg::cuda {

void input_gradient_with_dots(const InputGradientShape&, const void*, const void*, const void*,
                              void*, float*, Stream) {
  not_built();
}
int linear_residual_parts(int) {
  not_built();
}
void linear_residual_norm(const LinearResidualShape&, const void*, const void*, const void*, void*,
                          float*, float*, Stream) {
  not_built();
}

}  // namespace tg::cuda
