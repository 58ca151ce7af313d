// Never called: see ops/built.h.
#include "ops/built.h"
#include "ops/gemm/algorithm_choice.h"
#include "ops/gemm/fp8_kernel.h"

namespace tg {

bool launch_chosen(const GemmProblem&, const GemmTensors&) {
  not_built();
}

}  // namespace tg

namespace tg::cuda {

void fp8_round(const void*, std::int64_t, const Fp8Copy&, Dtype, Stream) {
  not_built();
}
void fp8_round_bank(const Fp8Bank&, Dtype, Stream) {
  not_built();
}
void fp8_transpose(const void*, std::int64_t, int, void*, Stream) {
  not_built();
}

}  // namespace tg::cuda
