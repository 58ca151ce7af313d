#include "optim/adamw.h"

namespace tg {

AdamW::AdamW(std::vector<std::pair<std::string, at::Tensor>> parameters,
             const AdamWOptions& options)
    : options_(options) {
  for (auto& [name, parameter] : parameters) {
    names_.push_back(std::move(name));
    exp_avgs_.push_back(at::zeros_like(parameter));
    exp_avg_sqs_.push_back(at::zeros_like(parameter));
    steps_.push_back(at::zeros({}, parameter.options().dtype(at::kFloat).requires_grad(false)));
    parameters_.push_back(std::move(parameter));
  }
}

void AdamW::step(const StepScalars& scalars) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> parameters, gradients, exp_avgs, exp_avg_sqs, steps;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto& gradient = parameters_[i].grad();
    if (!gradient.defined()) continue;
    parameters.push_back(parameters_[i].detach());
    gradients.push_back(gradient);
    exp_avgs.push_back(exp_avgs_[i]);
    exp_avg_sqs.push_back(exp_avg_sqs_[i]);
    steps.push_back(steps_[i]);
  }
  if (parameters.empty()) return;
  at::_foreach_add_(steps, 1 - scalars.skip);
  at::_fused_adamw_(parameters, gradients, exp_avgs, exp_avg_sqs, /*max_exp_avg_sqs=*/{}, steps,
                    scalars.lr_scale * options_.lr, options_.beta1, options_.beta2,
                    options_.weight_decay, options_.epsilon, /*amsgrad=*/false, /*maximize=*/false,
                    /*grad_scale=*/{}, /*found_inf=*/scalars.skip);
}

std::vector<std::pair<std::string, at::Tensor>> AdamW::state() const {
  std::vector<std::pair<std::string, at::Tensor>> state;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    state.emplace_back("exp_avg." + names_[i], exp_avgs_[i]);
    state.emplace_back("exp_avg_sq." + names_[i], exp_avg_sqs_[i]);
    state.emplace_back("step." + names_[i], steps_[i]);
  }
  return state;
}

}  // namespace tg
