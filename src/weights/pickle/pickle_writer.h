#pragma once
// Writes the pickle that torch.save would write for plain data: protocol 2, tensors by persistent
// id.
#include <string>
#include <vector>

#include "weights/pickle/pickle_value.h"

namespace tg {

struct WrittenPickle {
  std::string bytes;
  std::vector<at::Tensor> storages;  // contiguous; record data/N has the elements of the N-th
};

// Throws Error(internal) for a dtype that torch.save does not write as a storage class.
WrittenPickle write_pickle(const PickleValue& value);

}  // namespace tg
