// Never called: see ops/built.h.
#include "ops/built.h"
#include "ops/optim/muon_update_kernel.h"

namespace tg::cuda {

void nesterov_momentum(const NesterovMomentum&, Dtype, Dtype, Stream) {
  not_built();
}
void decayed_step(float*, const void*, std::int64_t, const float*, float, float, Dtype, Stream) {
  not_built();
}

}  // namespace tg::cuda
