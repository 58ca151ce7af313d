#pragma once
#include <ATen/ATen.h>

#include <vector>

#include "comm/communicator.h"
#include "model/parameters.h"

namespace tg {

// Gradients of all ranks summed, each where it is needed (Parameter::reduction): of what Muon
// steps, the banks, every rank gets its share of the matrices, of everything else the whole. The
// gradients are divided by the number of micro-batches beforehand, so that sums do not depend on
// the number of ranks.
class Reduction {
 public:
  // `bank_dtype`: in which the banks travel.
  Reduction(const ParameterTable& table, Communicator& communicator, at::ScalarType bank_dtype);

  // Of the gradients that the last backward pass left; and of `numbers` [k] fp32, in place. The
  // banks go first, the largest before the others; what is small goes packed into one collective.
  void reduce(const at::Tensor& numbers);
  // The global norm of what reduce() gave → [] fp32, on the device. Collective.
  at::Tensor norm();
  // This rank's own gradients, before reduce(), and their norm.
  std::vector<at::Tensor> local_gradients() const;
  at::Tensor local_norm() const;
  // Scales this rank's own gradients, before reduce().
  void scale_local(const at::Tensor& factor);
  // Scales all but the banks, after it.
  void scale_replicated(const at::Tensor& factor);
  // Zeroes the gradients that stay with their rank where `skip` [] is not 0, without a wait: they
  // are never zeroed otherwise, and what is not finite would stay in them.
  void drop_unreduced(const at::Tensor& skip);

  // After the last use of the shards: one rank's are its gradients, which would stay in memory.
  void drop_shards();

  // This rank's matrices of each bank, [⌈n/W⌉, rows, columns] in bank_dtype; beyond n they are
  // zero.
  const std::vector<at::Tensor>& shards() const { return shards_; }

 private:
  std::vector<at::Tensor>& part_of(GradientReduction reduction);
  void start_banks();
  at::Tensor pack(const at::Tensor& numbers) const;
  void unpack(const at::Tensor& packed, const at::Tensor& numbers);

  Communicator& communicator_;
  at::ScalarType bank_dtype_;
  std::vector<at::Tensor> banks_, replicated_, unreduced_;
  std::vector<at::Tensor> shards_, padded_;
  std::vector<Pending> pending_;  // of the banks
};

// [n, rows, columns] of a bank, or of a matrix that is stepped as one; shares storage.
inline at::Tensor as_bank(const at::Tensor& tensor) {
  return tensor.dim() == 2 ? tensor.unsqueeze(0) : tensor;
}

// Matrices of a bank of n on each of W ranks.
inline std::int64_t matrices_of_a_rank(std::int64_t n, int world_size) {
  return (n + world_size - 1) / world_size;
}

}  // namespace tg
