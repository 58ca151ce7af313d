#include "ops/optim/adam_update.h"

#include "ops/kernels.h"
#include "ops/optim/optim_kernels.h"

namespace tg {

namespace {

// √(1 − β2^t)/(1 − β1^t), [] fp64, since β^t is near 1 in the first steps. If the first step is
// skipped, t is 0.
at::Tensor bias_correction(const at::Tensor& t, const AdamOptions& options) {
  const auto steps = t.to(at::kDouble).clamp_min(1);
  return (1 - at::pow(options.beta2, steps)).sqrt() / (1 - at::pow(options.beta1, steps));
}

}  // namespace

void adam_update(const at::Tensor& p, const at::Tensor& g, const at::Tensor& m, const at::Tensor& v,
                 const at::Tensor& t, const AdamOptions& options, const at::Tensor& lr_scale,
                 const at::Tensor& skip) {
  const auto fits = [](const at::Tensor& x) { return use_kernels(x) && is_aligned_contiguous(x); };
  if (fits(p) && fits(m) && fits(v) && use_kernels(g)) {
    const auto gradient = aligned_contiguous(g);
    cuda::adam_update({.parameter = mutable_data(p),
                       .gradient = const_data(gradient),
                       .exp_avg = mutable_fp32_data(m),
                       .exp_avg_sq = mutable_fp32_data(v),
                       .count = p.numel(),
                       .step = const_fp32_data(t),
                       .lr_scale = const_fp32_data(lr_scale),
                       .skip = const_fp32_data(skip),
                       .lr = options.lr,
                       .weight_decay = options.weight_decay,
                       .beta1 = options.beta1,
                       .beta2 = options.beta2,
                       .epsilon = static_cast<float>(options.epsilon),
                       .cautious = options.cautious},
                      dtype_of(p), dtype_of(g), current_stream(p));
    return;
  }
  // A skipped step keeps the moments and uses a learning rate of 0.
  const auto dtype = m.scalar_type();
  const auto skipped = skip.to(at::kBool);
  const auto lr = at::where(skipped, 0.0, lr_scale.to(at::kDouble) * options.lr);
  const auto gradient = at::where(skipped, 0.0, g.to(dtype));
  const auto keep = [&](double beta) {
    return at::where(skipped, 1.0, at::full({}, beta, gradient.options()));
  };
  m.mul_(keep(options.beta1)).add_(gradient, 1 - options.beta1);
  v.mul_(keep(options.beta2)).addcmul_(gradient, gradient, 1 - options.beta2);
  auto u = (m / (v.sqrt() + options.epsilon)).mul_(lr * bias_correction(t, options));
  if (options.weight_decay > 0 && options.cautious) {
    const auto value = p.to(dtype);
    u.add_(at::where(u * value > 0, value * (lr.square() * options.weight_decay), 0.0));
  } else if (options.weight_decay > 0) {
    p.mul_(1 - lr * options.weight_decay);
  }
  p.sub_(u);
}

}  // namespace tg
