#include "optim/adamw.h"

namespace tg {

AdamW::AdamW(ParameterRows rows, const AdamWOptions& options, Communicator& communicator)
    : GroupOptimizer(std::move(rows), communicator), options_(options) {
  for (const auto& [name, value, first_chunk] : shards_) {
    exp_avgs_.push_back(at::zeros_like(value));
    exp_avg_sqs_.push_back(at::zeros_like(value));
    steps_.push_back(at::zeros({}, value.options().dtype(at::kFloat)));
  }
}

std::vector<ParameterGather> AdamW::step(const StepScalars& scalars,
                                         const std::vector<at::Tensor>& gradients,
                                         const at::Tensor&) {
  update(scalars, gradients);
  std::vector<ParameterGather> gathers;
  for (const auto* row : rows_) gathers.emplace_back(*row, communicator_);
  return gathers;
}

void AdamW::update(const StepScalars& scalars, const std::vector<at::Tensor>& gradients) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> values, used, exp_avgs, exp_avg_sqs, steps;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (!gradients[i].defined()) continue;
    values.push_back(shards_[i].value);
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

std::vector<RuleState> AdamW::state() const {
  return {
      {"exp_avg", exp_avgs_}, {"exp_avg_sq", exp_avg_sqs_}, {"step", steps_, /*of_shard=*/false}};
}

}  // namespace tg
