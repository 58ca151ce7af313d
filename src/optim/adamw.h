#pragma once
#include "optim/element_optimizer.h"

namespace tg {

// AdamW (Loshchilov and Hutter 2019) with bias correction and ε outside the root, by torch's fused
// kernel. State has the parameters' dtype.
class AdamW final : public ElementOptimizer {
 public:
  AdamW(ParameterRows rows, const AdamOptions& options, Communicator& communicator);

 private:
  void update(const StepScalars& scalars, const Shards& shards) override;
};

}  // namespace tg
