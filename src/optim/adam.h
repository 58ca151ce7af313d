#pragma once
#include "optim/element_optimizer.h"

namespace tg {

// adam_update() of ops/optim/adam_update.h. t counts the parameter's own updates. State is kept in
// fp32 (fp64 for fp64).
class Adam final : public ElementOptimizer {
 public:
  Adam(ParameterRows rows, const AdamOptions& options, Communicator& communicator);

 private:
  void update(const StepScalars& scalars, const Shards& shards) override;
};

}  // namespace tg
