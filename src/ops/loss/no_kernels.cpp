// Never called: see ops/built.h.
#include "ops/built.h"
#include "ops/loss/linear_cross_entropy_kernel.h"
#include "ops/loss/softcap_cross_entropy_kernel.h"

namespace tg::cuda {

void softmax_gradient(const LinearCrossEntropy&, const void*, float*, Stream) {
  not_built();
}
void finish_rows(const LinearCrossEntropy&, const float*, const SoftmaxSums&, const RowLosses&,
                 Stream) {
  not_built();
}
void scale_inputs(const LinearCrossEntropy&, const RowGradient&, void*, Stream) {
  not_built();
}
void scale_target_inputs(const LinearCrossEntropy&, const RowGradient&, int, void*, Stream) {
  not_built();
}
void finish_input_gradient(const LinearCrossEntropy&, const RowGradient&, const void*, void*,
                           Stream) {
  not_built();
}
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
