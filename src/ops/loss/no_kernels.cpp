// Never called: see ops/built.h.
#include "ops/built.h"
#include "ops/loss/softcap_cross_entropy_kernel.h"

namespace tg::cuda {

void softcap_nll(const SoftcapRows&, float*, Stream) {
  not_built();
}
void softcap_nll_and_gradient(const SoftcapRows&, float*, const GradientScale&, Stream) {
  not_built();
}
void scale_in_place(void*, std::int64_t, const float*, Dtype, Stream) {
  not_built();
}

}  // namespace tg::cuda
