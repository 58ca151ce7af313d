#include "optim/adam.h"

#include "optim/gradient_norm.h"

namespace tg {

namespace {

// u ← u + decay·p where u·p > 0, in u's dtype; `decay` [].
void add_cautious_decay(const std::vector<at::Tensor>& updates,
                        const std::vector<at::Tensor>& parameters, const at::Tensor& decay) {
  for (std::size_t i = 0; i < updates.size(); ++i) {
    const auto& u = updates[i];
    const auto p = parameters[i].to(u.scalar_type());
    u.add_(at::where(u * p > 0, p * decay, 0.0));
  }
}

}  // namespace

Adam::Adam(ParameterRows rows, const AdamOptions& options, Communicator& communicator)
    : ElementOptimizer(std::move(rows), options, communicator, norm_dtype) {}

void Adam::update(const StepScalars& scalars, const Shards& shards) {
  // A skipped step keeps the moments, whatever the gradients are, and uses a learning rate of 0.
  const auto skip = scalars.skip.to(at::kBool);
  const auto lr = at::where(skip, 0.0, scalars.lr_scale.to(at::kDouble) * options_.lr);
  std::vector<at::Tensor> gradients, rates;
  for (std::size_t i = 0; i < shards.values.size(); ++i) {
    const auto dtype = shards.exp_avgs[i].scalar_type();
    gradients.push_back(at::where(skip, 0.0, shards.gradients[i].to(dtype)));
    rates.push_back(lr * bias_correction(shards.steps[i]));
  }
  const auto decay = [&](double beta) {
    return at::where(skip, 1.0, at::full({}, beta, gradients.front().options()));
  };
  at::_foreach_mul_(shards.exp_avgs, decay(options_.beta1));
  at::_foreach_add_(shards.exp_avgs, gradients, 1 - options_.beta1);
  at::_foreach_mul_(shards.exp_avg_sqs, decay(options_.beta2));
  at::_foreach_addcmul_(shards.exp_avg_sqs, gradients, gradients, 1 - options_.beta2);
  const auto roots = at::_foreach_sqrt(shards.exp_avg_sqs);
  at::_foreach_add_(roots, options_.epsilon);
  const auto updates = at::_foreach_div(shards.exp_avgs, roots);
  at::_foreach_mul_(updates, rates);
  if (options_.weight_decay > 0) {
    if (options_.cautious) {
      add_cautious_decay(updates, shards.values, lr.square() * options_.weight_decay);
    } else {
      at::_foreach_mul_(shards.values, 1 - lr * options_.weight_decay);
    }
  }
  at::_foreach_sub_(shards.values, updates);
}

at::Tensor Adam::bias_correction(const at::Tensor& t) const {
  // In fp64, since β^t is near 1 in the first steps. If the first step is skipped, t is 0.
  const auto steps = t.to(at::kDouble).clamp_min(1);
  return (1 - at::pow(options_.beta2, steps)).sqrt() / (1 - at::pow(options_.beta1, steps));
}

}  // namespace tg
