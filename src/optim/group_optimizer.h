#pragma once
#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "comm/communicator.h"
#include "model/parameters.h"
#include "optim/shard.h"
#include "weights/named_tensors.h"

namespace tg {

// What changes from step to step, as scalars on the device [] fp32: no update waits for the host,
// and a captured update reads the next step's values.
struct StepScalars {
  at::Tensor lr_scale;  // factor on every base learning rate
  at::Tensor momentum;  // Muon's
  at::Tensor skip;      // 1: gradients are not finite, leave weights and state as they are; else 0
};

// One kind of state that a rule keeps.
struct RuleState {
  std::string name;                // "momentum": in files "momentum.NAME", NAME the parameter's
  std::vector<at::Tensor> values;  // of each parameter
  bool of_shard = true;            // [count, …] as the shard; else the same on every rank
};

// The optimizer of parameters that are updated together: by one rule with the same settings, and of
// one dtype. It updates this rank's shards of what is sharded.
class GroupOptimizer {
 public:
  virtual ~GroupOptimizer() = default;
  GroupOptimizer(const GroupOptimizer&) = delete;
  GroupOptimizer& operator=(const GroupOptimizer&) = delete;

  const ParameterRows& rows() const { return rows_; }
  // gradients: one per parameter, as Reduction::gradient() gives it, undefined if there is none;
  // `clip` [] fp32 scales gradients of matrices, all others are clipped already. Returns the
  // gathers of updated shards in flight. Collective.
  virtual std::vector<ParameterGather> step(const StepScalars& scalars,
                                            const std::vector<at::Tensor>& gradients,
                                            const at::Tensor& clip) = 0;

  // By name, sharing storage; of shards for each chunk (Shard::named).
  NamedTensors replicated_state() const;
  NamedTensors sharded_state() const { return shard_state(/*sharded=*/true); }

 protected:
  // The parameters, at least one, and the communicator must outlive this.
  GroupOptimizer(ParameterRows rows, Communicator& communicator);
  virtual std::vector<RuleState> state() const = 0;

  const ParameterRows rows_;
  const std::vector<Shard> shards_;  // of each
  Communicator& communicator_;

 private:
  NamedTensors shard_state(bool sharded) const;
};

}  // namespace tg
