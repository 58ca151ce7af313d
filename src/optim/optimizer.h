#pragma once
#include <ATen/ATen.h>

#include <memory>
#include <optional>
#include <vector>

#include "config/settings.h"
#include "model/parameters.h"
#include "optim/group_optimizer.h"
#include "optim/kept_gradients.h"
#include "optim/loss_scale.h"
#include "optim/reduction.h"
#include "weights/named_tensors.h"

namespace tg {

struct OptimizerOptions {
  at::ScalarType matrices = at::kFloat;  // MuonOptions::dtype, and in which banks are reduced
  bool record_quirks = false;            // see reduce()
  std::int64_t scaled_tokens = 0;        // LossScale's; 0: the loss is not scaled
};

// Updates all parameters, each by the rule of its row in the table (Parameter::update), sharded
// parameters on each rank in part. A parameter with the rule `none` is never updated, and its
// gradients accumulate from step to step (KeptGradients). A parameter that is updated every few
// steps (Update::every) takes no part in the steps between, neither in their norms nor in their
// clipping; the step that updates it takes the sum of its gradients (GradientSums).
class Optimizer {
 public:
  Optimizer(const ParameterTable& table, const OptimConfig& optim, const OptimizerOptions& options,
            Communicator& communicator);

  // What the gradients are to be multiplied by until reduce(), [] fp32 on the device, at a fixed
  // address; undefined without loss scaling.
  at::Tensor grad_scale() const {
    return loss_scale_ ? loss_scale_->gradient_scale() : at::Tensor();
  }
  // Returns the loss scale, [] fp32 on the device, at least 1; undefined without loss scaling.
  at::Tensor loss_scale() const { return loss_scale_ ? loss_scale_->value() : at::Tensor(); }

  // Before a step: whether it also updates what is updated every few steps, as at first.
  void set_updates_all(bool updates_all);
  // Before the first backward pass of a step: sets the gradients of rule `none`; all others are
  // zero.
  void begin_step() const { kept_.begin_step(grad_scale()); }
  // Sums all ranks' gradients, and `metrics` [k] fp32 in place. With `record_quirks` each rank
  // first clips its own gradients by max_norm, as the reference implementation does. Collective.
  void reduce(const at::Tensor& metrics, double max_norm);
  // After reduce(). Clips by the global norm: factor min(1, max_norm/(norm + 1e-6)), none for
  // max_norm 0. → the norm before clipping, [] fp32 on the device. Collective.
  at::Tensor clip(double max_norm);
  // After clip(). Collective.
  void step(const StepScalars& scalars);
  // In place: a gradient that was there stays at its address.
  void zero_gradients();

  // By name, sharing storage.
  NamedTensors replicated_state() const;  // the same on every rank
  NamedTensors sharded_state() const;     // of this rank's shards alone
  // This rank's gradients of the rule `none`.
  NamedTensors kept_gradients() const { return kept_.state(); }
  // This rank's parts of sums over ranks.
  NamedTensors gradient_sums() const { return sums_.state(); }

 private:
  std::vector<at::Tensor> gradients() const;

  const ParameterTable& table_;
  Communicator& communicator_;
  bool record_quirks_;
  const ParameterRows delayed_;  // the rows that are updated every few steps
  bool updates_all_ = true;
  Reduction reduction_;
  KeptGradients kept_;
  GradientSums sums_;
  at::Tensor local_norm_;  // with record_quirks: of this rank's own gradients
  at::Tensor clip_;        // the factor that the matrices' gradients still need
  std::vector<std::unique_ptr<GroupOptimizer>> groups_;  // in the table's order
  // By rule, Muon last: what AdamW's groups gather travels under its iterations.
  std::vector<GroupOptimizer*> in_step_order_;
  std::optional<LossScale> loss_scale_;
};

}  // namespace tg
