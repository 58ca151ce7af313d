#include "ops/optim/muon_update.h"

#include "ops/kernels.h"
#include "ops/optim/optim_kernels.h"

namespace tg {

namespace {

// `in_place` must be aligned and contiguous; `read` may be copied first.
bool supported(const at::Tensor& in_place, const at::Tensor& read) {
  return use_kernels(in_place) && use_kernels(read) && is_aligned_contiguous(in_place);
}

// `gradient` and `lookahead` are contiguous.
cuda::MuonMomentum momentum_args(const at::Tensor& b, const at::Tensor& gradient,
                                 const at::Tensor& lookahead, const at::Tensor& mu,
                                 const at::Tensor& c, const at::Tensor& skip) {
  return {.momentum = mutable_data(b),
          .gradient = const_data(gradient),
          .lookahead = mutable_data(lookahead),
          .count = b.numel(),
          .mu = const_fp32_data(mu),
          .clip = const_fp32_data(c),
          .skip = skip.const_data_ptr<bool>()};
}

// Returns whether a kernel did the step.
bool step_by_kernel(const at::Tensor& p, const at::Tensor& u, const at::Tensor& rate, double decay,
                    double scale, bool cautious) {
  if (p.scalar_type() != at::kFloat || !supported(p, u)) return false;
  const auto update = aligned_contiguous(u);
  cuda::decayed_step({.parameter = mutable_fp32_data(p),
                      .update = const_data(update),
                      .count = p.numel(),
                      .rate = const_fp32_data(rate),
                      .decay = static_cast<float>(decay),
                      .scale = static_cast<float>(scale),
                      .cautious = cautious},
                     dtype_of(update), current_stream(p));
  return true;
}

}  // namespace

at::Tensor nesterov_momentum(const at::Tensor& b, const at::Tensor& g, const at::Tensor& mu,
                             const at::Tensor& c, const at::Tensor& skip) {
  if (supported(b, g)) {
    const auto gradient = aligned_contiguous(g);
    auto lookahead = at::empty_like(b);
    cuda::nesterov_momentum(momentum_args(b, gradient, lookahead, mu, c, skip), dtype_of(b),
                            dtype_of(g), current_stream(b));
    return lookahead;
  }
  const auto dtype = b.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto keep = at::where(skip, 1.0, mu);
  const auto gradient = at::where(skip, 0.0, g.to(dtype) * c);
  // In fp32: bf16 would round μ itself, from 0.99 (an average over 100 steps) to 0.98828 (85
  // steps).
  b.copy_(b.to(dtype).mul_(keep).add_(gradient));
  return (b.to(dtype) * keep + gradient).to(b.scalar_type());
}

at::Tensor averaged_momentum(const at::Tensor& b, const at::Tensor& g, const at::Tensor& mu,
                             const at::Tensor& c, const at::Tensor& skip, at::ScalarType dtype) {
  if (b.scalar_type() == at::kFloat && supported(b, g)) {
    const auto gradient = aligned_contiguous(g);
    auto lookahead = at::empty_like(b, dtype);
    cuda::averaged_momentum(momentum_args(b, gradient, lookahead, mu, c, skip), dtype_of(g),
                            dtype_of(lookahead), current_stream(b));
    return lookahead;
  }
  const auto own = b.scalar_type();
  const auto factor = mu.to(own);
  // In a skipped step g = b, which leaves b unchanged.
  const auto gradient = at::where(skip, b, g.to(own) * c.to(own));
  b.lerp_(gradient, 1 - factor);
  return gradient.lerp(b, factor).to(dtype);
}

void decayed_step(const at::Tensor& p, const at::Tensor& u, const at::Tensor& rate, double decay,
                  double scale) {
  if (step_by_kernel(p, u, rate, decay, scale, /*cautious=*/false)) return;
  p.mul_(1 - rate * decay);
  p.addcmul_(u.to(p.scalar_type()), rate.to(p.scalar_type()), -scale);
}

void cautiously_decayed_step(const at::Tensor& p, const at::Tensor& u, const at::Tensor& rate,
                             double decay, double scale) {
  if (step_by_kernel(p, u, rate, decay, scale, /*cautious=*/true)) return;
  const auto update = u.to(p.scalar_type()), step = rate.to(p.scalar_type());
  const auto agrees = update * p >= 0;
  p.addcmul_(update + at::where(agrees, p * (step * decay), 0.0), step, -scale);
}

}  // namespace tg
