// Never called: see ops/built.h.
#include "ops/built.h"
#include "ops/loss/linear_cross_entropy_hopper.h"

namespace tg::cuda {

int cross_entropy_partial_sums(int, bool) {
  not_built();
}
void linear_cross_entropy(const LinearCrossEntropy&, float*, const RowLosses&, Stream) {
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

}  // namespace tg::cuda
