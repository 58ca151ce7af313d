#pragma once
#include "optim/matrix_optimizer.h"

namespace tg {

// Muon with Nesterov momentum (Jordan et al. 2024):
//   b ← μ·b + g;  u = orthogonalize(g + μ·b)
// State: b, "momentum", in options.dtype.
class Muon final : public MatrixOptimizer {
 public:
  Muon(ParameterRows rows, const MuonOptions& options, Communicator& communicator);

 private:
  std::vector<RuleState> state() const override { return {{"momentum", momentum_}}; }
  at::Tensor update_of(std::size_t bank, const at::Tensor& gradient,
                       const Momentum& momentum) override;

  std::vector<at::Tensor> momentum_;  // of this rank's matrices
};

}  // namespace tg
