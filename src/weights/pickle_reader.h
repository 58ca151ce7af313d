#pragma once
// The pickle inside a torch.save file, read by a small stack machine of our own. It knows the
// opcodes and the globals that torch.save writes for plain data (collections.OrderedDict,
// torch._utils._rebuild_tensor_v2 and _rebuild_parameter, torch.*Storage), calls nothing else, and
// bounds operations, values, memo, nesting and text before it allocates for them. Of other classes
// and functions, and of what the pickle would make with them, it keeps the names alone.
#include <c10/core/ScalarType.h>

#include <functional>
#include <string>
#include <string_view>

#include "weights/pickle_value.h"
#include "weights/state_dict.h"

namespace tg {

// The whole storage `key` as a contiguous 1-D CPU tensor of `numel` elements.
using StorageLoader =
    std::function<at::Tensor(std::string_view key, c10::ScalarType dtype, int64_t numel)>;

// All of it, which must be plain data. Tensors are views of what `load` returns (strides kept),
// parameters plain tensors. A view with more elements than its storage (expand) is refused. Errors:
// bad_data, naming `file` and the byte.
PickleValue read_pickle(std::string_view pickle, const std::string& file,
                        const StorageLoader& load);
// The state dict in it; beside that anything may be (an optimizer's state, NumPy's numbers, objects
// of classes), of which nothing is loaded. Errors: bad_data.
StateDict read_state_dict(std::string_view pickle, const std::string& file,
                          const StorageLoader& load);

}  // namespace tg
