#pragma once
#include "ops/optim/orthogonalize.h"
#include "optim/group_optimizer.h"

namespace tg {

struct MuonOptions {
  double lr;                       // base rate ℓ, times StepScalars::lr_scale
  double weight_decay;             // decoupled
  bool cautious = false;           // cautiously_decayed_step() instead of decayed_step()
  std::vector<QuinticStep> steps;  // of orthogonalize()
  bool normalize_rows = false;     // of orthogonalize()
  at::ScalarType dtype;            // of the reduced gradient, the iteration and the updates
};

// A rule that updates banks [n, rows, columns], each matrix on its own and each rank its part of
// the matrices (Parallel Muon, as in the record of 2026-03-23), by updates u:
//   p ← p·(1 − ℓ·weight_decay) − ℓ·lr_multiplier·u
// Gradients are in options.dtype.
class MatrixOptimizer : public GroupOptimizer {
 public:
  // A bank's updates travel while the next bank's are computed; no gather is left under way.
  std::vector<ParameterGather> step(const StepScalars& scalars,
                                    const std::vector<at::Tensor>& gradients,
                                    const at::Tensor& clip) final;

 protected:
  MatrixOptimizer(ParameterRows rows, const MuonOptions& options, Communicator& communicator);

  // What all of a rank's updates of a step go by: μ and the factor on gradients, [] fp32; whether
  // the step is skipped, [] bool.
  struct Momentum {
    at::Tensor mu, clip, skip;
  };
  // The updates of this rank's matrices of a bank, at least one, by their gradients
  // [count, rows, columns] → of the same shape.
  virtual at::Tensor update_of(std::size_t bank, const at::Tensor& gradient,
                               const Momentum& momentum) = 0;
  // By options.steps, and from X/(safety·‖X‖ + epsilon).
  at::Tensor orthogonalized(const at::Tensor& x, double safety = 1, double epsilon = 1e-7) const;

  const MuonOptions options_;

 private:
  // Starts filling gathered_[bank]; `mine`: this rank's updates.
  Pending gather(std::size_t bank, const at::Tensor& mine);
  void apply(std::size_t bank, const at::Tensor& updates, const at::Tensor& rate);

  std::vector<at::Tensor> banks_;     // the wholes, sharing storage
  std::vector<at::Tensor> gathered_;  // [≥ n, rows, columns], all ranks' updates; none for one rank
};

}  // namespace tg
