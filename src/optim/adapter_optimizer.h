#pragma once
#include <ATen/ATen.h>

#include <optional>

#include "config/types/choices.h"
#include "optim/sgd.h"

namespace tg {

struct AdapterOptimizerOptions {
  TttOptimizer rule = TttOptimizer::adam;
  double lr = 0, beta1 = 0, beta2 = 0;  // beta1 is SGD's momentum
  double weight_decay = 0;              // decoupled; coupled (added to the gradient) with SGD
};

// Optimizer of LoRA adapters stored as one flat tensor: fused AdamW with ε = 1e-10, or SGD.
class AdapterOptimizer {
 public:
  // `parameters` [n]: a leaf that requires a gradient.
  AdapterOptimizer(at::Tensor parameters, const AdapterOptimizerOptions& options);

  // Updates the parameters by their gradient, which is not cleared.
  void step();
  // Resets the optimizer state and the step count.
  void reset();

 private:
  at::Tensor parameters_;
  AdapterOptimizerOptions options_;
  at::Tensor exp_avg_, exp_avg_sq_, step_;  // AdamW's
  std::optional<Sgd> sgd_;
};

}  // namespace tg
