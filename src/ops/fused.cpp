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

bool use_hopper_kernels(const at::Tensor& x) {
  if constexpr (hopper_built)
    return use_kernels(x) && x.scalar_type() == at::kBFloat16 && cuda::is_hopper();
  return false;
}

}  // namespace tg
