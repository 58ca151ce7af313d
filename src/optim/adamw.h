#pragma once
#include <ATen/ATen.h>

#include <vector>

#include "optim/shard.h"
#include "optim/step_scalars.h"
#include "weights/named_tensors.h"

namespace tg {

struct AdamWOptions {
  double lr;            // base rate, times StepScalars::lr_scale
  double weight_decay;  // decoupled: p ← p·(1 − lr·weight_decay) first
  double beta1, beta2, epsilon;
};

// AdamW (Loshchilov and Hutter 2019) with bias correction and ε outside the root, as torch's fused
// one, for parameters of one dtype, or this rank's shards of them. State is kept in the parameters'
// dtype.
class AdamW {
 public:
  AdamW(std::vector<Shard> parameters, const AdamWOptions& options);

  // gradients: of each parameter, of its shape and dtype. One whose gradient is undefined is left
  // alone, undecayed.
  void step(const StepScalars& scalars, const std::vector<at::Tensor>& gradients);

  // Sharing storage: "exp_avg.NAME", "exp_avg_sq.NAME" and "step.NAME"; of shards the first two,
  // for each chunk (Shard::named), are sharded_state(), all else is replicated_state().
  NamedTensors replicated_state() const;
  NamedTensors sharded_state() const;

 private:
  NamedTensors moments(bool sharded) const;

  std::vector<Shard> parameters_;
  std::vector<at::Tensor> exp_avgs_, exp_avg_sqs_, steps_;
  AdamWOptions options_;
};

}  // namespace tg
