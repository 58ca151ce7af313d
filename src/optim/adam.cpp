#include "optim/adam.h"

#include "optim/gradient_norm.h"

namespace tg {

Adam::Adam(ParameterRows rows, const AdamWOptions& options, Communicator& communicator)
    : GroupOptimizer(std::move(rows), communicator), options_(options) {
  for (const auto& [name, value, first_chunk] : shards_) {
    const auto moments = value.options().dtype(norm_dtype(value));
    exp_avgs_.push_back(at::zeros(value.sizes(), moments));
    exp_avg_sqs_.push_back(at::zeros(value.sizes(), moments));
    steps_.push_back(at::zeros({}, value.options().dtype(at::kFloat)));
  }
}

std::vector<ParameterGather> Adam::step(const StepScalars& scalars,
                                        const std::vector<at::Tensor>& gradients,
                                        const at::Tensor&) {
  update(scalars, gradients);
  std::vector<ParameterGather> gathers;
  for (const auto* row : rows_) gathers.emplace_back(*row, communicator_);
  return gathers;
}

void Adam::update(const StepScalars& scalars, const std::vector<at::Tensor>& gradients) {
  const at::NoGradGuard no_grad;
  // A skipped step keeps the moments, whatever the gradients are, and has the rate 0.
  const auto skip = scalars.skip.to(at::kBool);
  const auto lr = at::where(skip, 0.0, scalars.lr_scale.to(at::kDouble) * options_.lr);
  std::vector<at::Tensor> values, used, exp_avgs, exp_avg_sqs, rates;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (!gradients[i].defined()) continue;
    steps_[i].add_(1 - scalars.skip);
    values.push_back(shards_[i].value);
    used.push_back(at::where(skip, 0.0, gradients[i].to(exp_avgs_[i].scalar_type())));
    exp_avgs.push_back(exp_avgs_[i]);
    exp_avg_sqs.push_back(exp_avg_sqs_[i]);
    rates.push_back(lr * bias_correction(steps_[i]));
  }
  if (values.empty()) return;
  const auto decay = [&](double beta) {
    return at::where(skip, 1.0, at::full({}, beta, used.front().options()));
  };
  at::_foreach_mul_(exp_avgs, decay(options_.beta1));
  at::_foreach_add_(exp_avgs, used, 1 - options_.beta1);
  at::_foreach_mul_(exp_avg_sqs, decay(options_.beta2));
  at::_foreach_addcmul_(exp_avg_sqs, used, used, 1 - options_.beta2);
  const auto roots = at::_foreach_sqrt(exp_avg_sqs);
  at::_foreach_add_(roots, options_.epsilon);
  const auto updates = at::_foreach_div(exp_avgs, roots);
  at::_foreach_mul_(updates, rates);
  if (options_.weight_decay > 0) at::_foreach_mul_(values, 1 - lr * options_.weight_decay);
  at::_foreach_sub_(values, updates);
}

at::Tensor Adam::bias_correction(const at::Tensor& t) const {
  // In fp64: β^t is near 1 in the first steps. A step that was skipped first has t = 0.
  const auto steps = t.to(at::kDouble).clamp_min(1);
  return (1 - at::pow(options_.beta2, steps)).sqrt() / (1 - at::pow(options_.beta1, steps));
}

std::vector<RuleState> Adam::state() const {
  return {
      {"exp_avg", exp_avgs_}, {"exp_avg_sq", exp_avg_sqs_}, {"step", steps_, /*of_shard=*/false}};
}

}  // namespace tg
