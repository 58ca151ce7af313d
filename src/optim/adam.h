#pragma once
#include "optim/element_optimizer.h"

namespace tg {

// Adam (Kingma and Ba 2015) in the form at the end of its section 2, where ε is not scaled by the
// bias correction, with decoupled weight decay:
//   p ← p·(1 − lr·weight_decay)
//   m ← β1·m + (1 − β1)·g;  v ← β2·v + (1 − β2)·g²
//   p ← p − u with u = lr·√(1 − β2^t)/(1 − β1^t)·m/(√v + ε)
// With options.cautious, as in the speedrun's record of 2026-08-01, the decay is proportional to
// the squared rate and applied only where the update shrinks the weight:
//   p ← p − u − lr²·weight_decay·p where u·p > 0, else p − u
// t counts the parameter's own updates. State is kept in fp32 (fp64 for fp64).
class Adam final : public ElementOptimizer {
 public:
  Adam(ParameterRows rows, const AdamOptions& options, Communicator& communicator);

 private:
  void update(const StepScalars& scalars, const Shards& shards) override;
  // √(1 − β2^t)/(1 − β1^t), [] fp64.
  at::Tensor bias_correction(const at::Tensor& t) const;
};

}  // namespace tg
