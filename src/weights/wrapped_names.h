#pragma once
#include <string>
#include <vector>

#include "weights/tensors/named_tensors.h"

namespace tg {

// Removes what module wrappers add to the names of weights: the components `_orig_mod`
// (torch.compile) and `module` (DistributedDataParallel) anywhere, then a leading `model`
// (transformers, and export). Returns the removed components, each once, as `_orig_mod.`; empty if
// there are none. Throws Error(bad_data), naming `path`, if two names become equal.
std::vector<std::string> unwrap_names(NamedTensors& tensors, const std::string& path);

}  // namespace tg
