#pragma once
#include "ops/optim/adam_update.h"
#include "optim/group_optimizer.h"

namespace tg {

// An optimizer with elementwise first and second moments. State: "exp_avg", "exp_avg_sq", and
// "step" [] fp32, the number of updates of each parameter.
class ElementOptimizer : public GroupOptimizer {
 public:
  // Leaves a parameter with an undefined gradient unchanged, without weight decay. Overlaps the
  // all-gather of one sharded parameter with the update of the next.
  std::vector<Completion> step(const StepScalars& scalars, const std::vector<at::Tensor>& gradients,
                               const at::Tensor& clip) final;

 protected:
  // `moments`: returns the dtype of the moments of a parameter's value.
  ElementOptimizer(ParameterRows rows, const AdamOptions& options, Communicator& communicator,
                   at::ScalarType (*moments)(const at::Tensor& value));

  // Shards that have a gradient, at least one, with their state, in the same order.
  struct Shards {
    std::vector<at::Tensor> values, gradients, exp_avgs, exp_avg_sqs, steps;
  };
  virtual void update(const StepScalars& scalars, const Shards& shards) = 0;

  const AdamOptions options_;

 private:
  void add(std::size_t i, const at::Tensor& gradient, Shards& to) const;
  std::vector<RuleState> state() const final;

  std::vector<at::Tensor> exp_avgs_, exp_avg_sqs_, steps_;
};

}  // namespace tg
