#pragma once
#include "optim/adamw.h"

namespace tg {

// Adam (Kingma and Ba 2015) in the form of its section 2's last paragraph, whose ε is not divided
// by the bias correction, with decoupled weight decay:
//   p ← p·(1 − lr·weight_decay)
//   m ← β1·m + (1 − β1)·g;  v ← β2·v + (1 − β2)·g²
//   p ← p − lr·√(1 − β2^t)/(1 − β1^t)·m/(√v + ε)
// t counts the parameter's own updates. State is kept in fp32 (fp64 for fp64): "exp_avg",
// "exp_avg_sq" and, [] fp32, t: "step".
class Adam final : public GroupOptimizer {
 public:
  Adam(ParameterRows rows, const AdamWOptions& options, Communicator& communicator);

  // A parameter whose gradient is undefined is left alone, undecayed.
  std::vector<ParameterGather> step(const StepScalars& scalars,
                                    const std::vector<at::Tensor>& gradients,
                                    const at::Tensor& clip) override;

 private:
  std::vector<RuleState> state() const override;
  void update(const StepScalars& scalars, const std::vector<at::Tensor>& gradients);
  // √(1 − β2^t)/(1 − β1^t), [] fp64.
  at::Tensor bias_correction(const at::Tensor& t) const;

  const AdamWOptions options_;
  std::vector<at::Tensor> exp_avgs_, exp_avg_sqs_, steps_;
};

}  // namespace tg
