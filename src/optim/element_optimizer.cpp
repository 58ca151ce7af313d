#include "optim/element_optimizer.h"

namespace tg {

ElementOptimizer::ElementOptimizer(ParameterRows rows, const AdamOptions& options,
                                   Communicator& communicator,
                                   at::ScalarType (*moments)(const at::Tensor& value))
    : GroupOptimizer(std::move(rows), communicator), options_(options) {
  for (const auto& [name, value, first_chunk] : shards_) {
    exp_avgs_.push_back(at::zeros_like(value, moments(value)));
    exp_avg_sqs_.push_back(at::zeros_like(value, moments(value)));
    steps_.push_back(at::zeros({}, value.options().dtype(at::kFloat)));
  }
}

void ElementOptimizer::add(std::size_t i, const at::Tensor& gradient, Shards& to) const {
  to.values.push_back(shards_[i].value);
  to.gradients.push_back(gradient);
  to.exp_avgs.push_back(exp_avgs_[i]);
  to.exp_avg_sqs.push_back(exp_avg_sqs_[i]);
  to.steps.push_back(steps_[i]);
}

std::vector<Completion> ElementOptimizer::step(const StepScalars& scalars,
                                               const std::vector<at::Tensor>& gradients,
                                               const at::Tensor&) {
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
    ParameterGather gather(*rows_[i], communicator_);
    completions.emplace_back([gather]() mutable { gather.wait(); });
  }
  if (!replicated.values.empty()) update(scalars, replicated);
  return completions;
}

std::vector<RuleState> ElementOptimizer::state() const {
  return {
      {"exp_avg", exp_avgs_}, {"exp_avg_sq", exp_avg_sqs_}, {"step", steps_, /*of_shard=*/false}};
}

}  // namespace tg
