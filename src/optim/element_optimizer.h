#pragma once
#include "optim/group_optimizer.h"

namespace tg {

struct AdamOptions {
  double lr;            // base rate, times StepScalars::lr_scale
  double weight_decay;  // decoupled: p ← p·(1 − lr·weight_decay) first
  double beta1, beta2, epsilon;
};

// A rule that updates each element by its own first and second moments. State: "exp_avg",
// "exp_avg_sq" and, [] fp32, the number of a parameter's own updates: "step".
class ElementOptimizer : public GroupOptimizer {
 public:
  // A parameter whose gradient is undefined is left alone, undecayed.
  std::vector<ParameterGather> step(const StepScalars& scalars,
                                    const std::vector<at::Tensor>& gradients,
                                    const at::Tensor& clip) final;

 protected:
  // `moments`: their dtype for a parameter's value.
  ElementOptimizer(ParameterRows rows, const AdamOptions& options, Communicator& communicator,
                   at::ScalarType (*moments)(const at::Tensor& value));

  // The shards that have a gradient, at least one, and their state, each in the same order.
  struct Shards {
    std::vector<at::Tensor> values, gradients, exp_avgs, exp_avg_sqs, steps;
  };
  virtual void update(const StepScalars& scalars, const Shards& shards) = 0;

  const AdamOptions options_;

 private:
  std::vector<RuleState> state() const final;

  std::vector<at::Tensor> exp_avgs_, exp_avg_sqs_, steps_;
};

}  // namespace tg
