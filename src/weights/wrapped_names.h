#pragma once
#include <string>
#include <vector>

#include "weights/named_tensors.h"

namespace tg {

// Takes off what wrappers of a module add to the names of its weights: the parts `_orig_mod`
// (torch.compile) and `module` (DistributedDataParallel), wherever they are, and then `model` in
// front (transformers, and export). → the parts taken off, each once, as `_orig_mod.`; none where
// no name has any. Errors: bad_data, for messages of `path` (two names become one).
std::vector<std::string> unwrap_names(NamedTensors& tensors, const std::string& path);

}  // namespace tg
