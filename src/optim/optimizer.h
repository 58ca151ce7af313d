#pragma once
#include <ATen/ATen.h>

#include <memory>
#include <optional>
#include <vector>

#include "config/settings.h"
#include "model/parameters.h"
#include "model/tied_rows.h"
#include "optim/group_optimizer.h"
#include "optim/kept_gradients.h"
#include "optim/loss_scale.h"
#include "optim/reduction.h"
#include "optim/schedule.h"
#include "weights/tensors/named_tensors.h"

namespace tg {

struct OptimizerOptions {
  at::ScalarType matrices = at::kFloat;  // MuonOptions::dtype, also for reducing banks
  bool record_quirks = false;            // see reduce()
  std::int64_t scaled_tokens = 0;        // LossScale's; 0: the loss is not scaled
};

// Updates all parameters by their rows in the table (Parameter::update); each rank updates its
// shards of sharded parameters. Rows with rule `none` are never updated, and their gradients
// accumulate across steps (KeptGradients). Rows updated every few steps (Update::every) are
// excluded from the steps in between, from norm and clipping as well; the step that updates them
// uses the sum of their gradients (GradientSums). A tied row (Update::tied_to) is excluded
// likewise, from the update too: the row that it is tied to takes both gradients, and its value is
// copied.
class Optimizer {
 public:
  Optimizer(const ParameterTable& table, const OptimConfig& optim, const OptimizerOptions& options,
            Communicator& communicator);

  // Factor on all gradients until reduce(), [] fp32 on the device, at a fixed address; undefined
  // without loss scaling.
  at::Tensor grad_scale() const {
    return loss_scale_ ? loss_scale_->gradient_scale() : at::Tensor();
  }
  // [] fp32 on the device, at least 1; undefined without loss scaling.
  at::Tensor loss_scale() const { return loss_scale_ ? loss_scale_->value() : at::Tensor(); }

  // Sets whether the next step also updates rows with Update::every > 1, initially true, and what
  // it does with tied rows, initially nothing. Call it before the step.
  void choose_rows(bool updates_all, Tie tie);
  // Call it before the first backward pass of a step, with zero gradients: restores the gradients
  // of rule `none`.
  void begin_step() const { kept_.begin_step(grad_scale()); }
  // Sums gradients over all ranks, and `metrics` [k] fp32 in place. With `record_quirks` each rank
  // first clips its own gradients by max_norm, as the reference implementation does. Collective.
  void reduce(const at::Tensor& metrics, double max_norm);
  // Clips the reduced gradients by their global norm: factor min(1, max_norm/(norm + 1e-6)), or
  // none if max_norm is 0. Returns the norm before clipping, [] fp32 on the device. Collective.
  at::Tensor clip(double max_norm);
  // Updates the parameters and zeroes the gradients; call it after clip(). Collective.
  void step(const StepScalars& scalars);
  // Zeroes the gradients of all rows but these in place, so that their addresses do not change.
  void zero_gradients(const ParameterRows& but = {});

  // State by name, sharing storage.
  NamedTensors replicated_state() const;  // equal on all ranks
  NamedTensors sharded_state() const;     // of this rank's shards only
  // This rank's gradients of rows with rule `none`.
  NamedTensors kept_gradients() const { return kept_.state(); }
  // This rank's terms of sums over all ranks.
  NamedTensors gradient_sums() const { return sums_.state(); }

 private:
  std::vector<at::Tensor> gradients(const ParameterRows& but = {}) const;
  GroupOptimizer& group_of(const Parameter& row) const;

  const ParameterTable& table_;
  Communicator& communicator_;
  bool record_quirks_;
  const ParameterRows delayed_;  // rows with Update::every > 1
  bool updates_all_ = true;
  const std::vector<TiedRow> tied_;
  Tie tie_ = Tie::none;
  // Of the next step: rows that are not updated, and tied rows that follow the others' update.
  ParameterRows left_out_;
  std::vector<TiedRow> following_;
  Reduction reduction_;
  KeptGradients kept_;
  GradientSums sums_;
  at::Tensor local_norm_;  // with record_quirks: norm of this rank's own gradients
  at::Tensor clip_;        // clipping factor still to be applied to the matrices' gradients
  std::vector<std::unique_ptr<GroupOptimizer>> groups_;  // in the table's order
  // Sorted by rule, Muon last: AdamW's all-gathers overlap with Muon's iterations.
  std::vector<GroupOptimizer*> in_step_order_;
  std::optional<LossScale> loss_scale_;
};

}  // namespace tg
