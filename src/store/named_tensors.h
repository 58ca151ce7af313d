#pragma once
// The store's currency: tensors with names, in an order that files keep.
#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace tg {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

}  // namespace tg
