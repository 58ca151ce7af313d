#pragma once
// Writes the pickle that torch.save would write for plain data (protocol 2, tensors by persistent
// id), and reads the pickle in a torch.save file with a small stack machine, which supports the
// opcodes and the globals that torch.save writes for plain data (collections.OrderedDict,
// torch._utils._rebuild_tensor_v2 and _rebuild_parameter, torch.*Storage), calls nothing else, and
// bounds operations, values, memo, nesting and text before it allocates for them. For other classes
// and functions, and for the objects that the pickle would make with them, it keeps only the names.
#include <c10/core/ScalarType.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "weights/pickle/pickle_value.h"
#include "weights/tensors/named_tensors.h"

namespace tg {

struct WrittenPickle {
  std::string bytes;
  std::vector<at::Tensor> storages;  // contiguous; record data/N has the elements of the N-th
};

// Throws Error(internal) for a dtype that torch.save does not write as a storage class.
WrittenPickle write_pickle(const PickleValue& value);

// Returns the whole storage `key` as a contiguous 1-D CPU tensor of `numel` elements.
using StorageLoader =
    std::function<at::Tensor(std::string_view key, c10::ScalarType dtype, int64_t numel)>;

// Reads the whole pickle, which must be plain data. Tensors are views of what `load` returns (with
// their strides), parameters become plain tensors. Throws Error(bad_data), naming `file` and the
// byte, also for a view with more elements than its storage (expand).
PickleValue read_pickle(std::string_view pickle, const std::string& file,
                        const StorageLoader& load);
// Reads the state dict of the pickle. Other entries may be anything (an optimizer's state, NumPy
// numbers, class instances) and are not loaded. Throws Error(bad_data).
StateDict read_state_dict(std::string_view pickle, const std::string& file,
                          const StorageLoader& load);

}  // namespace tg
