#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "model/parameters.h"
#include "optim/loss_scale.h"
#include "optim/sgd.h"

namespace tg {

// Parameters that test-time training updates: every exported parameter except in the first
// `frozen_blocks` blocks, whose matrices are slices of the banks.
class TttParameters {
 public:
  // `record_quirks`: also updates the banks' slices of frozen blocks. `scaled_tokens`:
  // see LossScale; 0: no loss scaling.
  TttParameters(const ParameterTable& table, std::int64_t frozen_blocks, double momentum,
                bool record_quirks, std::int64_t scaled_tokens);

  // Loss scale that gradients must be multiplied by until step(), as Optimizer::grad_scale().
  at::Tensor grad_scale() const {
    return loss_scale_ ? loss_scale_->gradient_scale() : at::Tensor();
  }

  std::int64_t unfrozen() const { return unfrozen_; }  // elements
  std::int64_t as_constants() const { return frozen_; }

  // Zeroes the gradients, and allocates missing ones, so that all ranks sum the same tensors. Call
  // it also before the first backward pass.
  void zero_gradients();
  // Sums the gradients over ranks and divides by `means`, the number of means in the sum; clips to
  // the global norm `max_norm` (0: no clipping); updates the parameters by SGD. Gradients that
  // overflowed count as zero. Collective.
  void step(Communicator& communicator, std::int64_t means, double max_norm, double lr);

 private:
  struct Part {
    at::Tensor parameter;  // the table's row
    at::Tensor value;      // the row's value or a slice of it
  };
  std::vector<at::Tensor> gradients() const;
  void unscale(const std::vector<at::Tensor>& gradients);

  const ParameterTable& table_;
  std::vector<Part> parts_;
  std::int64_t unfrozen_ = 0, frozen_ = 0;
  std::optional<Sgd> sgd_;
  std::optional<LossScale> loss_scale_;
};

}  // namespace tg
