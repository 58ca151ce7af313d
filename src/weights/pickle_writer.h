#pragma once
// The pickle that torch.save would write for plain data: protocol 2, tensors by persistent id.
#include <string>
#include <vector>

#include "weights/pickle_value.h"

namespace tg {

struct WrittenPickle {
  std::string bytes;
  std::vector<at::Tensor> storages;  // record data/N has the elements of the N-th, contiguous
};

// Errors: internal for a dtype that torch.save names otherwise than by a storage class.
WrittenPickle write_pickle(const PickleValue& value);

}  // namespace tg
