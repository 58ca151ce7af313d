#include "optim/loss_scale.h"

#include <algorithm>
#include <bit>

namespace tg {

LossScale::LossScale(at::Device device, std::int64_t tokens)
    : unit_(static_cast<double>(
          std::bit_floor(static_cast<std::uint64_t>(std::max(tokens / kTokens, std::int64_t{1}))))),
      gradient_scale_(at::full({}, kFirst * unit_, at::TensorOptions(device).dtype(at::kFloat))),
      good_steps_(at::zeros_like(gradient_scale_)) {}

void LossScale::unscale(const std::vector<at::Tensor>& gradients) const {
  const at::NoGradGuard no_grad;
  if (!gradients.empty()) at::_foreach_mul_(gradients, gradient_scale_.reciprocal());
}

void LossScale::update(const at::Tensor& skip) {
  const at::NoGradGuard no_grad;
  const auto overflowed = skip != 0;
  good_steps_.add_(1).masked_fill_(overflowed, 0);
  const auto grows = good_steps_ >= kGrowthInterval;
  good_steps_.masked_fill_(grows, 0);
  // Scales are powers of two, so that scaling is exact except for subnormals.
  gradient_scale_.mul_(1 + grows.to(at::kFloat) - 0.5 * overflowed.to(at::kFloat))
      .clamp_min_(unit_);
}

NamedTensors LossScale::state() const {
  return {{"loss_scale", gradient_scale_}, {"loss_scale.good_steps", good_steps_}};
}

}  // namespace tg
