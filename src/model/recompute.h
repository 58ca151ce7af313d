#pragma once
#include <ATen/ATen.h>

#include <functional>
#include <vector>

namespace tg {

using TensorFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

// function(inputs), of which autograd keeps the inputs alone: backward runs `function` once more,
// now with a graph, and goes through that (Chen et al. 2016; torch.utils.checkpoint). Parameters
// that `function` uses besides its inputs get their gradients as without it. Undefined tensors are
// passed in and out as such. `function` must give the same values both times; all that it refers to
// must live until backward. Without gradients: function(inputs).
std::vector<at::Tensor> recomputed(TensorFunction function, const std::vector<at::Tensor>& inputs);

}  // namespace tg
