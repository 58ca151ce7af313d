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
  at::ScalarType dtype;            // of the reduced gradient, the orthogonalization and the updates
};

// Muon with Nesterov momentum (Jordan et al. 2024), for banks of matrices [n, rows, columns],
// sharded by matrix over the ranks (Parallel Muon, as in the record of 2026-03-23), and for single
// matrices [rows, columns], replicated; one batch updates all single matrices of one shape:
//   b ← μ·b + g;  u = orthogonalize(g + μ·b)
//   p ← p·(1 − ℓ·weight_decay·wd_multiplier) − ℓ·lr_multiplier·u
// with the row's multipliers, each times the multiplier of the matrix's part (Update::parts).
// Gradients are rounded to options.dtype. State: b, "momentum", in options.dtype.
class Muon : public GroupOptimizer {
 public:
  Muon(ParameterRows rows, const MuonOptions& options, Communicator& communicator)
      : Muon(std::move(rows), options, communicator, options.dtype) {}

  // Overlaps the all-gather of one bank's updates with the computation of the next batch's.
  std::vector<Completion> step(const StepScalars& scalars, const std::vector<at::Tensor>& gradients,
                               const at::Tensor& clip) final;

 protected:
  // `momentum`: dtype of b.
  Muon(ParameterRows rows, const MuonOptions& options, Communicator& communicator,
       at::ScalarType momentum);

  // Inputs of a step shared by all batches: μ and the clipping factor, [] fp32; whether the step is
  // skipped, [] bool.
  struct Momentum {
    at::Tensor mu, clip, skip;
  };
  // Matrices of one shape that are updated together: a bank, or all single matrices of that shape.
  struct Batch {
    std::vector<std::size_t> rows;  // indices in rows_; of a bank, one
    bool is_bank;
    // [≥ n, rows, columns], all ranks' updates; undefined if they are replicated
    at::Tensor gathered{};
  };
  // Joins the tensors of a batch's rows, [count, …] of a bank, else […] of a matrix each, to one
  // [count, …]; `by_row`: of all rows.
  static at::Tensor joined(const Batch& batch, const std::vector<at::Tensor>& by_row);
  // The opposite, for all batches: returns views of these tensors, one per row.
  std::vector<at::Tensor> split_by_row(const std::vector<at::Tensor>& by_batch) const;
  // A tensor of a batch, [n, rows, columns], with its matrices split as Update::row_parts says.
  at::Tensor split(std::size_t batch, const at::Tensor& tensor) const;
  // How the batch's first row is updated; the others differ in multipliers alone.
  const Update& update(std::size_t batch) const;
  // Computes the updates of this rank's matrices of a batch, at least one, from their gradients
  // [count, rows, columns], split(); the result has the same shape.
  virtual at::Tensor update_of(std::size_t batch, const at::Tensor& gradient,
                               const Momentum& momentum);
  std::vector<RuleState> state() const override { return {{"momentum", split_by_row(momentum_)}}; }
  // orthogonalize() with options.steps, starting from X/(safety·‖X‖ + epsilon).
  at::Tensor orthogonalized(const at::Tensor& x, double safety = 1, double epsilon = 1e-7) const;

  const MuonOptions options_;
  std::vector<Batch> batches_;
  std::vector<at::Tensor> momentum_;  // of this rank's matrices, by batch

 private:
  void apply(const Batch& batch, const at::Tensor& updates, const at::Tensor& rate);
  void apply_to_row(std::size_t row, const at::Tensor& updates, const at::Tensor& rate);
};

}  // namespace tg
