#include "ops/fused.h"

#include "ops/kernels.h"

namespace tg {

namespace {
bool fused_on = true;
}

void set_fused(bool on) {
  fused_on = on;
}

bool use_kernels(const at::Tensor& x) {
  const auto dtype = x.scalar_type();
  return fused_on && kernels_built && x.is_cuda() &&
         (dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kHalf);
}

}  // namespace tg
