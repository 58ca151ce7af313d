#pragma once
#include <ATen/ATen.h>

#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "model/parameters.h"

namespace tg {

// Reduces gradients over all ranks as Parameter::reduction() says: reduce-scatter of sharded
// parameters by chunk, all-reduce of replicated ones. Gradients must already be divided by the
// global number of micro-batches, so that sums do not depend on the number of ranks.
class Reduction {
 public:
  // `matrices`: dtype in which Muon's banks are reduced and updated, and in which a sharded head is
  // reduced; all others are reduced in their own dtype.
  Reduction(const ParameterTable& table, Communicator& communicator, at::ScalarType matrices);

  // Sets the rows that do not take part; initially none. All other functions cover only the others.
  void leave_out(ParameterRows rows) { left_out_ = std::move(rows); }

  // Reduces the gradients of the last backward pass (consumed) and `metrics` [k] fp32, in place.
  // Reduce-scatters start first, largest parameter first; replicated gradients are packed into one
  // all-reduce.
  void reduce(const at::Tensor& metrics);
  // Result of reduce(): this rank's chunks [count, …] of a sharded parameter, a bank's in dtype
  // `matrices`, else the whole gradient; undefined if backward computed none. Valid until
  // drop_shards().
  at::Tensor gradient(const Parameter& row) const;
  // Global norm of the reduced gradients → [] fp32, on the device. Collective.
  at::Tensor norm();
  // This rank's own gradients, before reduce().
  std::vector<at::Tensor> local_gradients() const;
  // Scales the reduced gradients, except of matrices, which their optimizers scale.
  void scale_all_but_matrices(const at::Tensor& factor);

  // Releases the shards after their last use; with one rank, copies of the banks would stay
  // allocated.
  void drop_shards();

 private:
  struct Sharded {
    const Parameter* row;
    at::ScalarType dtype, step_dtype;  // dtypes of the collective and of the update
    // Reused across steps; undefined if the gradient itself is used.
    at::Tensor padded{}, reduced{};
    at::Tensor mine{};  // this rank's chunks [count, …]
    Pending pending{};
  };
  // Returns the row's gradient; undefined if it has none or does not take part.
  at::Tensor taken(const Parameter& row) const;
  // Gradients of replicated rows that take part.
  std::vector<at::Tensor> replicated() const;
  void start(Sharded& sharded);
  at::Tensor pack(const at::Tensor& metrics) const;
  void unpack(const at::Tensor& packed, const at::Tensor& metrics);

  Communicator& communicator_;
  std::vector<Sharded> sharded_;  // largest first
  ParameterRows replicated_, unreduced_, left_out_;
};

}  // namespace tg
