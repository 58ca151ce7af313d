#pragma once
// Small tensors for seeds, and what every reader of tensors must give.
#include <ATen/core/Tensor.h>

#include "weights/pickle/pickle_value.h"
#include "weights/tensors/named_tensors.h"

namespace tg::fuzz {

// Float [2, 3], Bool [2], Float [0] and Char [2, 2].
NamedTensors small_tensors();
// The tensors as a dict, with a value of every other kind.
PickleDict small_dict();

// Reads every element, also of the tensors in a value.
void touch(const at::Tensor& tensor);
void touch(const PickleValue& value);

}  // namespace tg::fuzz
