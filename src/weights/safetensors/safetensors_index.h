#pragma once
// Model in several safetensors files, as transformers writes large ones:
// model.safetensors.index.json maps each tensor to a file in its folder.
#include <map>
#include <set>
#include <string>

#include "weights/tensors/named_tensors.h"

namespace tg {

using TensorsOfFiles = std::map<std::string, std::set<std::string>>;  // file → tensor names

// Reads an index of at most 1 MiB, which suffices for about 10,000 tensors. Throws
// Error(missing_input), Error(io), and Error(bad_data) if it is no index or a file name has a path.
TensorsOfFiles read_safetensors_index(const std::string& path);
// Loads the tensors of all files, which must be exactly the tensors in the index. Throws
// Error(missing_input), Error(io) and Error(bad_data).
NamedTensors load_safetensors_index(const std::string& path);

}  // namespace tg
