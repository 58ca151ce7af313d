#pragma once
// Tensors with the names that checkpoints and model files give them, in the order of the file.
#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace tg {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

}  // namespace tg
