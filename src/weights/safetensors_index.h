#pragma once
// A model in several safetensors files, as transformers writes large ones:
// model.safetensors.index.json says in which file of its folder each tensor is.
#include <map>
#include <set>
#include <string>

#include "weights/named_tensors.h"

namespace tg {

using TensorsOfFiles = std::map<std::string, std::set<std::string>>;  // file name → tensors' names

// At most 1 MiB, which names some 10,000 tensors. Errors: missing_input, io, bad_data (no index, or
// a file's name with a path).
TensorsOfFiles read_safetensors_index(const std::string& path);
// The tensors of all its files, which hold those that the index says and no others. Errors:
// missing_input, io, bad_data.
NamedTensors load_safetensors_index(const std::string& path);

}  // namespace tg
