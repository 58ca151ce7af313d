#pragma once
#include <ATen/ATen.h>

#include <string>
#include <utility>
#include <vector>

#include "optim/step_scalars.h"

namespace tg {

struct AdamWOptions {
  double lr;            // base rate, times StepScalars::lr_scale
  double weight_decay;  // decoupled: p ← p·(1 − lr·weight_decay) first
  double beta1, beta2, epsilon;
};

// AdamW (Loshchilov and Hutter 2019) with bias correction and ε outside the root, as torch's fused
// one, for parameters of one dtype. State is kept in the parameters' dtype. A parameter whose
// gradient is undefined is left alone, undecayed.
class AdamW {
 public:
  AdamW(std::vector<std::pair<std::string, at::Tensor>> parameters, const AdamWOptions& options);

  void step(const StepScalars& scalars);
  // Sharing storage: "exp_avg.NAME", "exp_avg_sq.NAME", "step.NAME".
  std::vector<std::pair<std::string, at::Tensor>> state() const;

 private:
  std::vector<std::string> names_;
  std::vector<at::Tensor> parameters_, exp_avgs_, exp_avg_sqs_, steps_;
  AdamWOptions options_;
};

}  // namespace tg
