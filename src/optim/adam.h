#pragma once
#include "ops/optim/adam_update.h"
#include "optim/group_optimizer.h"

namespace tg {

// adam_update() of ops/optim/adam_update.h. State: "exp_avg" and "exp_avg_sq", in fp32 (fp64 for
// fp64), and "step" [] fp32, the number of the parameter's own updates.
class Adam : public GroupOptimizer {
 public:
  Adam(ParameterRows rows, const AdamOptions& options, Communicator& communicator);

  // Leaves a parameter with an undefined gradient unchanged, without weight decay. Overlaps the
  // all-gather of one sharded parameter with the update of the next.
  std::vector<Completion> step(const StepScalars& scalars, const std::vector<at::Tensor>& gradients,
                               const at::Tensor& clip) final;

 protected:
  // `moments`: returns the dtype of the moments of a parameter's value.
  Adam(ParameterRows rows, const AdamOptions& options, Communicator& communicator,
       at::ScalarType (*moments)(const at::Tensor& value));

  // Shards that have a gradient, at least one, with their state, in the same order.
  struct Shards {
    std::vector<at::Tensor> values, gradients, exp_avgs, exp_avg_sqs, steps;
  };
  virtual void update(const StepScalars& scalars, const Shards& shards);

  const AdamOptions options_;

 private:
  void add(std::size_t i, const at::Tensor& gradient, Shards& to) const;
  std::vector<RuleState> state() const final;

  std::vector<at::Tensor> exp_avgs_, exp_avg_sqs_, steps_;
};

// AdamW (Loshchilov and Hutter 2019) with bias correction and ε outside the root, by torch's fused
// kernel. The moments have the parameters' dtype.
class AdamW final : public Adam {
 public:
  AdamW(ParameterRows rows, const AdamOptions& options, Communicator& communicator);

 private:
  void update(const StepScalars& scalars, const Shards& shards) override;
};

}  // namespace tg
