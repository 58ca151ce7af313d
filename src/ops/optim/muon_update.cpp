#include "ops/optim/muon_update.h"

#include "ops/kernels.h"
#include "ops/optim/muon_update_kernel.h"

namespace tg {

namespace {

bool supported(const at::Tensor& a, const at::Tensor& b) {
  return use_kernels(a) && use_kernels(b) && is_aligned_contiguous(a) && is_aligned_contiguous(b);
}

}  // namespace

at::Tensor nesterov_momentum(const at::Tensor& b, const at::Tensor& g, const at::Tensor& mu,
                             const at::Tensor& c, const at::Tensor& skip) {
  if (supported(b, g)) {
    auto lookahead = at::empty_like(b);
    cuda::nesterov_momentum({.momentum = mutable_data(b),
                             .gradient = const_data(g),
                             .lookahead = mutable_data(lookahead),
                             .count = b.numel(),
                             .mu = const_fp32_data(mu),
                             .clip = const_fp32_data(c),
                             .skip = skip.const_data_ptr<bool>()},
                            dtype_of(b), dtype_of(g), current_stream(b));
    return lookahead;
  }
  const auto dtype = b.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto keep = at::where(skip, 1.0, mu);
  const auto gradient = at::where(skip, 0.0, g.to(dtype) * c);
  // In fp32: half precision would round μ itself, 0.99 to 0.98828, a memory of 85 steps.
  b.copy_(b.to(dtype).mul_(keep).add_(gradient));
  return (b.to(dtype) * keep + gradient).to(b.scalar_type());
}

void decayed_step(const at::Tensor& p, const at::Tensor& u, const at::Tensor& rate, double decay,
                  double scale) {
  if (p.scalar_type() == at::kFloat && supported(p, u)) {
    cuda::decayed_step(mutable_fp32_data(p), const_data(u), p.numel(), const_fp32_data(rate),
                       static_cast<float>(decay), static_cast<float>(scale), dtype_of(u),
                       current_stream(p));
    return;
  }
  p.mul_(1 - rate * decay);
  p.addcmul_(u.to(p.scalar_type()), rate.to(p.scalar_type()), -scale);
}

}  // namespace tg
