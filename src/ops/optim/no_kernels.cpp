// Never called: see ops/built.h.
#include "ops/built.h"
#include "ops/optim/optim_kernels.h"

namespace tg::cuda {

void nesterov_momentum(const MuonMomentum&, Dtype, Dtype, Stream) {
  not_built();
}
void averaged_momentum(const MuonMomentum&, Dtype, Dtype, Stream) {
  not_built();
}
void decayed_step(const MuonStep&, Dtype, Stream) {
  not_built();
}
std::int64_t second_moment_parts(const SecondMoments&) {
  not_built();
}
void normalize_variance(const SecondMoments&, float*, float*, void*, Dtype, Stream) {
  not_built();
}
void adam_update(const AdamUpdate&, Dtype, Dtype, Stream) {
  not_built();
}
void add_and_clear(const AddAndClear&, Dtype, Dtype, Stream) {
  not_built();
}

}  // namespace tg::cuda
