#include "optim/adam.h"

#include "optim/gradient_norm.h"

namespace tg {

Adam::Adam(ParameterRows rows, const AdamOptions& options, Communicator& communicator)
    : Adam(std::move(rows), options, communicator, norm_dtype) {}

Adam::Adam(ParameterRows rows, const AdamOptions& options, Communicator& communicator,
           at::ScalarType (*moments)(const at::Tensor& value))
    : GroupOptimizer(std::move(rows), communicator), options_(options) {
  for (const auto& [name, value, first_chunk] : shards_) {
    exp_avgs_.push_back(at::zeros_like(value, moments(value)));
    exp_avg_sqs_.push_back(at::zeros_like(value, moments(value)));
    steps_.push_back(at::zeros({}, value.options().dtype(at::kFloat)));
  }
}

void Adam::add(std::size_t i, const at::Tensor& gradient, Shards& to) const {
  to.values.push_back(shards_[i].value);
  to.gradients.push_back(gradient);
  to.exp_avgs.push_back(exp_avgs_[i]);
  to.exp_avg_sqs.push_back(exp_avg_sqs_[i]);
  to.steps.push_back(steps_[i]);
}

std::vector<Completion> Adam::step(const StepScalars& scalars,
                                   const std::vector<at::Tensor>& gradients, const at::Tensor&) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> steps;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (gradients[i].defined()) steps.push_back(steps_[i]);
  }
  if (!steps.empty()) at::_foreach_add_(steps, 1 - scalars.skip);
  Shards replicated;
  std::vector<Completion> completions;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (!shards_[i].first_chunk) {
      if (gradients[i].defined()) add(i, gradients[i], replicated);
      continue;
    }
    if (gradients[i].defined()) {
      Shards one;
      add(i, gradients[i], one);
      update(scalars, one);
    }
    completions.push_back(gather_parameter(*rows_[i], communicator_));
  }
  if (!replicated.values.empty()) update(scalars, replicated);
  return completions;
}

void Adam::update(const StepScalars& scalars, const Shards& shards) {
  for (std::size_t i = 0; i < shards.values.size(); ++i) {
    adam_update(shards.values[i], shards.gradients[i], shards.exp_avgs[i], shards.exp_avg_sqs[i],
                shards.steps[i], options_, scalars.lr_scale, scalars.skip);
  }
}

std::vector<RuleState> Adam::state() const {
  return {
      {"exp_avg", exp_avgs_}, {"exp_avg_sq", exp_avg_sqs_}, {"step", steps_, /*of_shard=*/false}};
}

AdamW::AdamW(ParameterRows rows, const AdamOptions& options, Communicator& communicator)
    : Adam(std::move(rows), options, communicator,
           [](const at::Tensor& value) { return value.scalar_type(); }) {}

void AdamW::update(const StepScalars& scalars, const Shards& shards) {
  at::_fused_adamw_(shards.values, shards.gradients, shards.exp_avgs, shards.exp_avg_sqs,
                    /*max_exp_avg_sqs=*/{}, shards.steps, scalars.lr_scale * options_.lr,
                    options_.beta1, options_.beta2, options_.weight_decay, options_.epsilon,
                    /*amsgrad=*/false, /*maximize=*/false, /*grad_scale=*/{},
                    /*found_inf=*/scalars.skip);
}

}  // namespace tg
