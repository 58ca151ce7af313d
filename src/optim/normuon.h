#pragma once
#include "optim/muon.h"

namespace tg {

// NorMuon (Li et al. 2025), as in the speedrun's record of 2025-11-10: Muon with updates normalised
// by the root of their second moments, one per hidden channel of tall and wide matrices, and one
// per input channel of square ones; with Update::square_moments_by_row, as in the record of
// 2026-08-01, one per output channel.
//   b ← b + (1 − μ)·(g − b);  X = orthogonalize(g + μ·(b − g)), from X/(1.02·‖X‖ + 1e-6)
//   q ← q + (1 − β2)·(mean X² − q), over the rows, or for moments by row over the columns
//   u = Y·‖X‖/max(‖Y‖, 1e-10) with Y = X/√max(q, 1e-10)
// State: b, "momentum", and q, "second_momentum" [count, 1 or Update::row_parts, columns] or
// [count, rows, 1], in the parameters' dtype; norms and moments are computed in it.
class NorMuon final : public Muon {
 public:
  NorMuon(ParameterRows rows, const MuonOptions& options, double beta2, Communicator& communicator);

 private:
  std::vector<RuleState> state() const override {
    return {{"momentum", split_by_row(momentum_)},
            {"second_momentum", split_by_row(second_momentum_)}};
  }
  at::Tensor update_of(std::size_t batch, const at::Tensor& gradient,
                       const Momentum& momentum) override;

  const double beta2_;
  std::vector<at::Tensor> second_momentum_;  // of this rank's matrices, by batch
};

}  // namespace tg
