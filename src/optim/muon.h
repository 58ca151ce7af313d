#pragma once
#include "ops/optim/orthogonalize.h"
#include "optim/group_optimizer.h"

namespace tg {

struct MuonOptions {
  double lr;                       // base rate, times StepScalars::lr_scale
  double weight_decay;             // decoupled
  std::vector<QuinticStep> steps;  // of orthogonalize()
  bool normalize_rows = false;     // likewise
  at::ScalarType dtype;            // of the momentum buffer, the reduced gradient and the iteration
};

// Muon with Nesterov momentum (Jordan et al. 2024) on banks [n, rows, columns], each matrix on its
// own and each rank with its share of them (Parallel Muon, as in the record of 2026-03-23):
//   b ← μ·b + g;  u = orthogonalize(g + μ·b)
//   p ← p·(1 − lr·weight_decay) − lr·lr_multiplier·u
// Gradients are in options.dtype. State: b, "momentum".
class Muon final : public GroupOptimizer {
 public:
  Muon(ParameterRows rows, MuonOptions options, Communicator& communicator);

  // A bank's updates travel while the next bank's are computed; no gather is left under way.
  std::vector<ParameterGather> step(const StepScalars& scalars,
                                    const std::vector<at::Tensor>& gradients,
                                    const at::Tensor& clip) override;

 private:
  std::vector<RuleState> state() const override { return {{"momentum", momentum_}}; }
  // → [count, rows, columns]
  at::Tensor update_of(std::size_t bank, const at::Tensor& gradient, const at::Tensor& mu,
                       const at::Tensor& clip, const at::Tensor& skip);
  // Starts filling gathered_[bank]; `mine`: this rank's updates.
  Pending gather(std::size_t bank, const at::Tensor& mine);
  void apply(std::size_t bank, const at::Tensor& updates, const at::Tensor& rate);

  const MuonOptions options_;
  std::vector<at::Tensor> banks_;     // the wholes, sharing storage
  std::vector<at::Tensor> momentum_;  // of this rank's matrices
  std::vector<at::Tensor> gathered_;  // [≥ n, rows, columns], all ranks' updates; none for one rank
};

}  // namespace tg
