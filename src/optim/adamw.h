#pragma once
#include "optim/group_optimizer.h"

namespace tg {

struct AdamWOptions {
  double lr;            // base rate, times StepScalars::lr_scale
  double weight_decay;  // decoupled: p ← p·(1 − lr·weight_decay) first
  double beta1, beta2, epsilon;
};

// AdamW (Loshchilov and Hutter 2019) with bias correction and ε outside the root, as torch's fused
// one. State is kept in the parameters' dtype: "exp_avg", "exp_avg_sq" and, [] fp32, "step".
class AdamW final : public GroupOptimizer {
 public:
  AdamW(ParameterRows rows, const AdamWOptions& options, Communicator& communicator);

  // A parameter whose gradient is undefined is left alone, undecayed.
  std::vector<ParameterGather> step(const StepScalars& scalars,
                                    const std::vector<at::Tensor>& gradients,
                                    const at::Tensor& clip) override;

 private:
  std::vector<RuleState> state() const override;
  void update(const StepScalars& scalars, const std::vector<at::Tensor>& gradients);

  const AdamWOptions options_;
  std::vector<at::Tensor> exp_avgs_, exp_avg_sqs_, steps_;
};

}  // namespace tg
