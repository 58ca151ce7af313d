#pragma once
// Reads weights of any supported format, and copies them into a model.
#include <map>
#include <set>
#include <string>

#include "base/error.h"
#include "weights/tensors/named_tensors.h"

namespace tg {

enum class WeightsFormat { safetensors, safetensors_index, torch };

// Detects the format by content, not by name: a zip is a torch.save file, JSON the index of several
// safetensors files, anything else safetensors. Throws Error(missing_input), Error(io), and
// Error(bad_data) for a known file of another kind.
WeightsFormat weights_format(const std::string& path);
// Reads the file in that format, with the names that it has. Throws Error(missing_input), Error(io)
// and Error(bad_data).
StateDict load_weights(const std::string& path);

// Copies each tensor into the tensor with the same name, which keeps its storage, dtype and device.
// Names and shapes must match exactly; otherwise copies nothing and throws Error(misfit) that lists
// missing, unexpected, misshapen and non-floating-point tensors. All model weights are loaded
// through this function, so that none of them is NaN or infinite: throws Error(internal), naming
// the first tensor that is not finite in its new dtype. `path` is for the messages.
void copy_into(const NamedTensors& from, NamedTensors& into, const std::string& path,
               ExitCode misfit = ExitCode::bad_data);

// Returns the names of the tensors in each file of an index of at most 1 MiB, which suffices for
// about 10,000 tensors. Throws Error(missing_input), Error(io), and Error(bad_data) if it is no
// index or a file name has a path.
std::map<std::string, std::set<std::string>> read_safetensors_index(const std::string& path);

}  // namespace tg
