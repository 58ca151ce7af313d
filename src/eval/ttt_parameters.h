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
// blocks, whose matrices are slices of the banks.
class TttParameters {
 public:
  // With `record_quirks` the banks' slices of frozen blocks are stepped as well. `scaled_tokens`:
  // LossScale's; 0: the loss is not scaled.
  TttParameters(const ParameterTable& table, std::int64_t frozen_blocks, double momentum,
                bool record_quirks, std::int64_t scaled_tokens);

  // What the gradients are to be multiplied by until step(), as Optimizer::grad_scale().
  at::Tensor grad_scale() const {
    return loss_scale_ ? loss_scale_->gradient_scale() : at::Tensor();
  }

  std::int64_t unfrozen() const { return unfrozen_; }  // elements
  std::int64_t frozen() const { return frozen_; }

  // To be called before the first backward pass as well: it gives every parameter a gradient, so
  // that all ranks sum the same tensors.
  void zero_gradients();
  // The ranks' gradients together are the sum of so many `means`, whose mean counts; clipped to the
  // global norm `max_norm` (0: not clipped); one step of SGD. Gradients that overflowed count as
  // zero. Collective.
  void step(Communicator& communicator, std::int64_t means, double max_norm, double lr);

 private:
  struct Part {
    at::Tensor parameter;  // the table's row
    at::Tensor value;      // the row's values or a slice of them
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
