#pragma once
#include <ATen/ATen.h>

#include <optional>

#include "config/types/choices.h"
#include "optim/sgd.h"

namespace tg {

struct AdapterOptimizerOptions {
  TttOptimizer rule = TttOptimizer::adam;
  double lr = 0, beta1 = 0, beta2 = 0;  // SGD's momentum is beta1
  double weight_decay = 0;              // decoupled; with SGD added to the gradient
};

// Updates adapters that are one flat tensor: AdamW as optim/adamw with ε = 1e-10, one kernel, or
// SGD.
class AdapterOptimizer {
 public:
  // `parameters` [n]: a leaf that requires a gradient.
  AdapterOptimizer(at::Tensor parameters, const AdapterOptimizerOptions& options);

  // By the parameters' gradient, which it leaves.
  void step();
  // State and step as new.
  void reset();

 private:
  at::Tensor parameters_;
  AdapterOptimizerOptions options_;
  at::Tensor exp_avg_, exp_avg_sq_, step_;  // AdamW's
  std::optional<Sgd> sgd_;
};

}  // namespace tg
