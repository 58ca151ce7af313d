#include "optim/adam.h"

#include "ops/optim/adam_update.h"
#include "optim/gradient_norm.h"

namespace tg {

Adam::Adam(ParameterRows rows, const AdamOptions& options, Communicator& communicator)
    : ElementOptimizer(std::move(rows), options, communicator, norm_dtype) {}

void Adam::update(const StepScalars& scalars, const Shards& shards) {
  const AdamStep step{.lr = options_.lr,
                      .weight_decay = options_.weight_decay,
                      .beta1 = options_.beta1,
                      .beta2 = options_.beta2,
                      .epsilon = options_.epsilon,
                      .cautious = options_.cautious,
                      .lr_scale = scalars.lr_scale,
                      .skip = scalars.skip};
  for (std::size_t i = 0; i < shards.values.size(); ++i) {
    adam_update(shards.values[i], shards.gradients[i], shards.exp_avgs[i], shards.exp_avg_sqs[i],
                shards.steps[i], step);
  }
}

}  // namespace tg
