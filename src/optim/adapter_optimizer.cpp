#include "optim/adapter_optimizer.h"

#include <utility>
#include <vector>

namespace tg {

AdapterOptimizer::AdapterOptimizer(at::Tensor parameters, const AdapterOptimizerOptions& options)
    : parameters_(std::move(parameters)), options_(options) {
  const auto values = parameters_.detach();
  if (options.rule == TttOptimizer::sgd) {
    sgd_.emplace(std::vector{values}, options.beta1, options.weight_decay);
    return;
  }
  exp_avg_ = at::zeros_like(values);
  exp_avg_sq_ = at::zeros_like(values);
  step_ = at::zeros({}, values.options().dtype(at::kFloat));
}

void AdapterOptimizer::step() {
  constexpr double epsilon = 1e-10;
  const at::NoGradGuard no_grad;
  const auto& gradient = parameters_.grad();
  if (sgd_) {
    sgd_->step({gradient}, options_.lr);
  } else {
    step_ += 1;
    at::_fused_adamw_({parameters_.detach()}, {gradient}, {exp_avg_}, {exp_avg_sq_},
                      /*max_exp_avg_sqs=*/{}, {step_}, options_.lr, options_.beta1, options_.beta2,
                      options_.weight_decay, epsilon, /*amsgrad=*/false, /*maximize=*/false);
  }
}

void AdapterOptimizer::reset() {
  if (sgd_) return sgd_->reset();
  exp_avg_.zero_();
  exp_avg_sq_.zero_();
  step_.zero_();
}

}  // namespace tg
