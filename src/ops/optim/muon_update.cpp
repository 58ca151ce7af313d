#include "ops/optim/muon_update.h"

#include "ops/kernels.h"
#include "ops/optim/muon_update_kernel.h"

namespace tg {

namespace {

bool supported(const at::Tensor& a, const at::Tensor& b) {
  return use_kernels(a) && use_kernels(b) && is_packed(a) && is_packed(b);
}

}  // namespace

at::Tensor nesterov_momentum(const at::Tensor& b, const at::Tensor& g, const at::Tensor& mu,
                             const at::Tensor& c, const at::Tensor& skip) {
  if (supported(b, g)) {
    auto ahead = at::empty_like(b);
    cuda::nesterov_momentum({.momentum = write(b),
                             .gradient = read(g),
                             .ahead = write(ahead),
                             .count = b.numel(),
                             .mu = read_fp32(mu),
                             .clip = read_fp32(c),
                             .skip = skip.const_data_ptr<bool>()},
                            float_of(b), float_of(g), current_stream(b));
    return ahead;
  }
  const auto dtype = b.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto keep = at::where(skip, 1.0, mu);
  const auto gradient = at::where(skip, 0.0, g.to(dtype) * c);
  // In a half-precision product μ itself would be rounded, 0.99 to 0.98828: a memory of 85 steps.
  b.copy_(b.to(dtype).mul_(keep).add_(gradient));
  return (b.to(dtype) * keep + gradient).to(b.scalar_type());
}

void decayed_step(const at::Tensor& p, const at::Tensor& u, const at::Tensor& rate, double decay,
                  double scale) {
  if (p.scalar_type() == at::kFloat && supported(p, u)) {
    cuda::decayed_step(write_fp32(p), read(u), p.numel(), read_fp32(rate),
                       static_cast<float>(decay), static_cast<float>(scale), float_of(u),
                       current_stream(p));
    return;
  }
  p.mul_(1 - rate * decay);
  p.addcmul_(u.to(p.scalar_type()), rate.to(p.scalar_type()), -scale);
}

}  // namespace tg
