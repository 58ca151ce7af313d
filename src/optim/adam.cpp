#include "optim/adam.h"

#include "optim/gradient_norm.h"

namespace tg {

Adam::Adam(ParameterRows rows, const AdamOptions& options, Communicator& communicator)
    : ElementOptimizer(std::move(rows), options, communicator, norm_dtype) {}

void Adam::update(const StepScalars& scalars, const Shards& shards) {
  for (std::size_t i = 0; i < shards.values.size(); ++i) {
    adam_update(shards.values[i], shards.gradients[i], shards.exp_avgs[i], shards.exp_avg_sqs[i],
                shards.steps[i], options_, scalars.lr_scale, scalars.skip);
  }
}

}  // namespace tg
