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

std::vector<ParameterGather> ElementOptimizer::step(const StepScalars& scalars,
                                                    const std::vector<at::Tensor>& gradients,
                                                    const at::Tensor&) {
  const at::NoGradGuard no_grad;
  Shards used;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (!gradients[i].defined()) continue;
    used.values.push_back(shards_[i].value);
    used.gradients.push_back(gradients[i]);
    used.exp_avgs.push_back(exp_avgs_[i]);
    used.exp_avg_sqs.push_back(exp_avg_sqs_[i]);
    used.steps.push_back(steps_[i]);
  }
  if (!used.values.empty()) {
    at::_foreach_add_(used.steps, 1 - scalars.skip);
    update(scalars, used);
  }
  std::vector<ParameterGather> gathers;
  for (const auto* row : rows_) gathers.emplace_back(*row, communicator_);
  return gathers;
}

std::vector<RuleState> ElementOptimizer::state() const {
  return {
      {"exp_avg", exp_avgs_}, {"exp_avg_sq", exp_avg_sqs_}, {"step", steps_, /*of_shard=*/false}};
}

}  // namespace tg
