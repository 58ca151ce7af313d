#include "optim/adamw.h"

namespace tg {

AdamW::AdamW(std::vector<Shard> parameters, const AdamWOptions& options)
    : parameters_(std::move(parameters)), options_(options) {
  for (const auto& [name, value, first_chunk] : parameters_) {
    exp_avgs_.push_back(at::zeros_like(value));
    exp_avg_sqs_.push_back(at::zeros_like(value));
    steps_.push_back(at::zeros({}, value.options().dtype(at::kFloat)));
  }
}

void AdamW::step(const StepScalars& scalars, const std::vector<at::Tensor>& gradients) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> values, used, exp_avgs, exp_avg_sqs, steps;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!gradients[i].defined()) continue;
    values.push_back(parameters_[i].value);
    used.push_back(gradients[i]);
    exp_avgs.push_back(exp_avgs_[i]);
    exp_avg_sqs.push_back(exp_avg_sqs_[i]);
    steps.push_back(steps_[i]);
  }
  if (values.empty()) return;
  at::_foreach_add_(steps, 1 - scalars.skip);
  at::_fused_adamw_(values, used, exp_avgs, exp_avg_sqs, /*max_exp_avg_sqs=*/{}, steps,
                    scalars.lr_scale * options_.lr, options_.beta1, options_.beta2,
                    options_.weight_decay, options_.epsilon, /*amsgrad=*/false, /*maximize=*/false,
                    /*grad_scale=*/{}, /*found_inf=*/scalars.skip);
}

NamedTensors AdamW::moments(bool sharded) const {
  NamedTensors state;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto& parameter = parameters_[i];
    if (parameter.first_chunk.has_value() != sharded) continue;
    for (auto& [name, value] : parameter.named(exp_avgs_[i]))
      state.emplace_back("exp_avg." + name, value);
    for (auto& [name, value] : parameter.named(exp_avg_sqs_[i]))
      state.emplace_back("exp_avg_sq." + name, value);
  }
  return state;
}

NamedTensors AdamW::replicated_state() const {
  auto state = moments(/*sharded=*/false);
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    state.emplace_back("step." + parameters_[i].name, steps_[i]);
  return state;
}

NamedTensors AdamW::sharded_state() const {
  return moments(/*sharded=*/true);
}

}  // namespace tg
