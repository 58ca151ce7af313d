#include "ops/optim/normuon_update.h"

#include "ops/kernels.h"
#include "ops/optim/optim_kernels.h"

namespace tg {

namespace {

constexpr double kLeast = 1e-10;

at::Tensor norms(const at::Tensor& matrices) {
  return matrices.norm(2, {-2, -1}, /*keepdim=*/true);
}

bool is_by_row(const at::Tensor& q, const at::Tensor& x) {
  return q.size(-1) == 1 && q.size(-2) == x.size(-2);
}

bool supported(const at::Tensor& x, const at::Tensor& q) {
  return use_kernels(x) && q.scalar_type() == at::kFloat && q.is_contiguous() && x.dim() == 3 &&
         x.size(2) % 8 == 0;
}

}  // namespace

at::Tensor normalized_variance(const at::Tensor& x, const at::Tensor& q, double beta2,
                               const at::Tensor& skip) {
  if (supported(x, q)) {
    const auto iterated = aligned_contiguous(x);
    const bool of_rows = is_by_row(q, x);
    const cuda::SecondMoments args{.x = const_data(iterated),
                                   .matrices = x.size(0),
                                   .rows = x.size(1),
                                   .columns = x.size(2),
                                   .of_rows = of_rows,
                                   .kept = x.size(of_rows ? 1 : 2),
                                   .q = mutable_fp32_data(q),
                                   .beta2 = beta2,
                                   .skip = skip.const_data_ptr<bool>()};
    const auto out = at::empty_like(iterated);
    cuda::normalize_variance(args, mutable_data(out), dtype_of(x), workspace_like(x),
                             current_stream(x));
    return out;
  }
  const auto wide = x.to(q.scalar_type());
  const auto mean = wide.square().mean({is_by_row(q, x) ? -1 : -2}, /*keepdim=*/true);
  q.lerp_(at::where(skip, q, mean), 1 - beta2);
  const auto y = wide * q.clamp_min(kLeast).rsqrt();
  return (y * (norms(wide) / norms(y).clamp_min(kLeast))).to(x.scalar_type());
}

}  // namespace tg
