#pragma once
#include <ATen/ATen.h>

#include <functional>
#include <vector>

namespace tg {

using TensorFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

// Activation checkpointing (Chen et al. 2016; torch.utils.checkpoint): returns function(inputs), of
// which autograd saves only the inputs; backward calls `function` again with grad mode enabled and
// differentiates that. Parameters that `function` uses besides its inputs get their gradients as
// usual. Undefined tensors are passed in and out as undefined. `function` must be deterministic,
// and all that it refers to must live until backward. With grad mode disabled: function(inputs).
std::vector<at::Tensor> recomputed(TensorFunction function, const std::vector<at::Tensor>& inputs);

}  // namespace tg
