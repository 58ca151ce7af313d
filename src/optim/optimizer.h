#pragma once
#include <ATen/ATen.h>

#include <vector>

#include "config/settings.h"
#include "model/parameters.h"
#include "optim/adamw.h"
#include "optim/muon.h"

namespace tg {

// All optimizers of a run, dealt out by the parameter table: Muon on banks, AdamW on tables,
// scalars and projections, Adam (no decay) on the heads.
class Optimizer {
 public:
  // `reduce_dtype`: see MuonOptions::dtype. With `record_quirks` the multi-token heads are in no
  // optimizer, and their gradients are never zeroed.
  Optimizer(const ParameterTable& table, const ModelConfig& model, const OptimConfig& optim,
            at::ScalarType reduce_dtype, bool record_quirks);

  // The global norm over all gradients → [] fp32, on the device.
  at::Tensor gradient_norm() const;
  // Scales all gradients by min(1, max_norm/(norm + 1e-6)).
  void clip(const at::Tensor& norm, double max_norm);
  void step(const StepScalars& scalars);
  void zero_gradients();

  // Every state tensor by name, sharing storage.
  std::vector<std::pair<std::string, at::Tensor>> state() const;

 private:
  std::vector<at::Tensor> gradients() const;

  const ParameterTable& table_;
  bool record_quirks_;
  std::vector<AdamW> adamw_;
  std::vector<Muon> muon_;  // one, or none in a model without banks
};

}  // namespace tg
