#include "optim/sgd.h"

#include <cassert>

namespace tg {

Sgd::Sgd(std::vector<at::Tensor> parameters, double momentum, double weight_decay)
    : parameters_(std::move(parameters)), momentum_(momentum), weight_decay_(weight_decay) {
  for (const auto& parameter : parameters_) momentum_buffers_.push_back(at::zeros_like(parameter));
}

void Sgd::step(const std::vector<at::Tensor>& gradients, double lr) {
  assert(gradients.size() == parameters_.size());
  const at::NoGradGuard no_grad;
  if (parameters_.empty()) return;
  at::_foreach_mul_(momentum_buffers_, momentum_);
  at::_foreach_add_(momentum_buffers_, gradients);
  if (weight_decay_ > 0) at::_foreach_add_(momentum_buffers_, parameters_, weight_decay_);
  at::_foreach_add_(parameters_, momentum_buffers_, -lr);
}

void Sgd::reset() {
  at::_foreach_zero_(momentum_buffers_);
}

}  // namespace tg
