#include "ops/optim/add_and_clear.h"

#include "ops/kernels.h"
#include "ops/optim/optim_kernels.h"

namespace tg {

void add_and_clear(const at::Tensor& to, const at::Tensor& from, const at::Tensor& skip) {
  const auto fits = [](const at::Tensor& x) { return use_kernels(x) && is_aligned_contiguous(x); };
  if (fits(to) && fits(from)) {
    cuda::add_and_clear({.to = mutable_data(to),
                         .from = mutable_data(from),
                         .count = to.numel(),
                         .skip = const_fp32_data(skip)},
                        dtype_of(to), dtype_of(from), current_stream(to));
    return;
  }
  to.add_(skip.defined() ? at::where(skip.to(at::kBool), 0.0, from) : from);
  from.zero_();
}

}  // namespace tg
