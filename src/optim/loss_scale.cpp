#include "optim/loss_scale.h"

namespace tg {

LossScale::LossScale(at::Device device)
    : value_(at::full({}, kFirst, at::TensorOptions(device).dtype(at::kFloat))),
      good_steps_(at::zeros_like(value_)) {}

void LossScale::unscale(const std::vector<at::Tensor>& gradients) const {
  const at::NoGradGuard no_grad;
  if (!gradients.empty()) at::_foreach_mul_(gradients, value_.reciprocal());
}

void LossScale::update(const at::Tensor& skip) {
  const at::NoGradGuard no_grad;
  const auto overflowed = skip != 0;
  good_steps_.add_(1).masked_fill_(overflowed, 0);
  const auto grows = good_steps_ >= kGrowthInterval;
  good_steps_.masked_fill_(grows, 0);
  // Powers of two throughout: scaling rounds nothing but what is subnormal.
  value_.mul_(1 + grows.to(at::kFloat) - 0.5 * overflowed.to(at::kFloat)).clamp_min_(1);
}

std::vector<std::pair<std::string, at::Tensor>> LossScale::state() const {
  return {{"loss_scale", value_}, {"loss_scale.good_steps", good_steps_}};
}

}  // namespace tg
