#pragma once
#include <ATen/ATen.h>

#include <vector>

#include "config/settings.h"
#include "model/parameters.h"
#include "optim/adamw.h"
#include "optim/muon.h"
#include "optim/reduction.h"

namespace tg {

// All optimizers of a run, dealt out by the parameter table (Parameter::group): Muon and AdamW at
// each group's rate. What is in group `none` is never updated, and its gradients are never zeroed.
class Optimizer {
 public:
  // `reduce_dtype`: see MuonOptions::dtype. `record_quirks`: see reduce().
  Optimizer(const ParameterTable& table, const ModelConfig& model, const OptimConfig& optim,
            at::ScalarType reduce_dtype, bool record_quirks, Communicator& communicator);

  // Sums all ranks' gradients, and `metrics` [k] fp32 in place. With `record_quirks` each rank
  // first clips its own gradients by max_norm, as the reference implementation does. Collective.
  void reduce(const at::Tensor& metrics, double max_norm);
  // After reduce(). Clips by the global norm: factor min(1, max_norm/(norm + 1e-6)), none for
  // max_norm 0. → the norm before clipping, [] fp32 on the device. Collective.
  at::Tensor clip(double max_norm);
  // After clip(). A skipped step also zeroes the gradients of group `none`, so that one that is
  // not finite does not stay. Collective.
  void step(const StepScalars& scalars);
  // In place: a gradient that was there stays at its address.
  void zero_gradients();

  // By name, sharing storage.
  using NamedState = std::vector<std::pair<std::string, at::Tensor>>;
  NamedState replicated_state() const;  // AdamW's, the same on every rank
  NamedState sharded_state() const;     // Muon's, of this rank's matrices alone

 private:
  const ParameterTable& table_;
  Communicator& communicator_;
  bool record_quirks_;
  Reduction reduction_;
  at::Tensor local_norm_;  // with record_quirks: of this rank's own gradients
  at::Tensor clip_;        // the factor that the banks' gradients still need
  std::vector<AdamW> adamw_;
  std::vector<Muon> muon_;  // one, or none in a model without banks
};

}  // namespace tg
