#pragma once
#include <ATen/ATen.h>

#include <vector>

#include "comm/communicator.h"
#include "model/parameters.h"

namespace tg {

// Gradients of all ranks summed, each where it is needed (Parameter::reduction): of what is sharded
// every rank gets its chunks, of what is replicated the whole. The gradients are divided by the
// number of micro-batches beforehand, so that sums do not depend on the number of ranks.
class Reduction {
 public:
  // `matrices`: in which Muon's banks travel and are stepped, and in which a sharded head travels
  // between ranks; all else travels in its own. `delayed`: rows that take part in some steps only.
  Reduction(const ParameterTable& table, Communicator& communicator, at::ScalarType matrices,
            ParameterRows delayed = {});

  // Whether the delayed rows take part from now on, as they do at first. All below is of the rows
  // that do.
  void set_takes_delayed(bool takes) { takes_delayed_ = takes; }

  // Reduces the gradients of the last backward pass, which it consumes, and `numbers` [k] fp32, in
  // place. Sharded gradients go first, the largest before the others; replicated gradients go
  // packed into one collective.
  void reduce(const at::Tensor& numbers);
  // What reduce() gave: of a sharded parameter this rank's chunks [count, …], a bank's in
  // `matrices`, else the whole; undefined where backward left none. Valid until drop_shards().
  at::Tensor gradient(const Parameter& row) const;
  // The global norm of it → [] fp32, on the device. Collective.
  at::Tensor norm();
  // This rank's own gradients, before reduce(), and their norm.
  std::vector<at::Tensor> local_gradients() const;
  at::Tensor local_norm() const;
  // Scales this rank's own gradients, before reduce().
  void scale_local(const at::Tensor& factor);
  // Scales what reduce() gave, but for what is updated by matrices, whose rules scale.
  void scale_all_but_matrices(const at::Tensor& factor);

  // After the last use of the shards: one rank's copies of its banks would stay in memory.
  void drop_shards();

 private:
  struct Sharded {
    const Parameter* row;
    at::ScalarType dtype, step_dtype;  // in which it travels and is stepped
    at::Tensor padded, reduced;  // kept from step to step; undefined where the gradient serves
    at::Tensor mine;             // this rank's chunks [count, …]
    Pending pending;
  };
  bool takes(const Parameter& row) const;
  // The gradients of replicated rows.
  std::vector<at::Tensor> replicated() const;
  void start(Sharded& sharded);
  static void finish(Sharded& sharded);
  at::Tensor pack(const at::Tensor& numbers) const;
  void unpack(const at::Tensor& packed, const at::Tensor& numbers);

  Communicator& communicator_;
  std::vector<Sharded> sharded_;  // the largest first
  ParameterRows replicated_, unreduced_;
  const ParameterRows delayed_;
  bool takes_delayed_ = true;
};

}  // namespace tg
