#pragma once
#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "comm/communicator.h"
#include "model/parameters.h"
#include "optim/shard.h"
#include "weights/tensors/named_tensors.h"

namespace tg {

// Values that change from step to step, as device scalars [] fp32: updates do not synchronize with
// the host, and a captured update reads the next step's values.
struct StepScalars {
  at::Tensor lr_scale;  // multiplies every base learning rate
  at::Tensor momentum;  // of Muon
  at::Tensor skip;      // 1: gradients are not finite, keep weights and state; else 0
};

// One kind of optimizer state.
struct RuleState {
  std::string name;                // e.g. "momentum"; saved as "momentum.NAME" for parameter NAME
  std::vector<at::Tensor> values;  // one per parameter
  bool of_shard = true;            // true: [count, …] like the shard; false: equal on all ranks
};

// Optimizer of a parameter group: one rule, one set of settings, one dtype. Updates this rank's
// shards of sharded parameters.
class GroupOptimizer {
 public:
  virtual ~GroupOptimizer() = default;
  GroupOptimizer(const GroupOptimizer&) = delete;
  GroupOptimizer& operator=(const GroupOptimizer&) = delete;

  const ParameterRows& rows() const { return rows_; }
  // gradients: per parameter, from Reduction::gradient(), or undefined. `clip` [] fp32: still to be
  // applied to gradients of matrices; all others are already clipped. With several ranks the
  // update is complete after the completions, to be called in order; the gradients are not read
  // any more. Collective.
  virtual std::vector<Completion> step(const StepScalars& scalars,
                                       const std::vector<at::Tensor>& gradients,
                                       const at::Tensor& clip) = 0;

  // Copies the state of the row `from` of `group`, which has the same rule, to `row` of this group.
  // `row` has the shape of `from` or, if it is a matrix, the transposed shape. Collective.
  void copy_state(const Parameter& row, const GroupOptimizer& group, const Parameter& from);

  // State by name, sharing storage; shards are listed by chunk (Shard::named).
  NamedTensors replicated_state() const;
  NamedTensors sharded_state() const { return shard_state(/*sharded=*/true); }

 protected:
  // `rows` (at least one) and `communicator` must outlive this.
  GroupOptimizer(ParameterRows rows, Communicator& communicator);
  virtual std::vector<RuleState> state() const = 0;

  const ParameterRows rows_;
  const std::vector<Shard> shards_;  // one per row
  Communicator& communicator_;

 private:
  NamedTensors shard_state(bool sharded) const;
  std::size_t index_of(const Parameter& row) const;
};

}  // namespace tg
