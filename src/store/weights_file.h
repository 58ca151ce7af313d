#pragma once
// Weights from whichever format they are in, and into a model.
#include <string>

#include "store/named_tensors.h"

namespace tg {

enum class WeightsFormat { safetensors, torch };

// By content, not by name: a zip is a torch.save file, anything else safetensors. Errors:
// missing_input, io.
WeightsFormat weights_format(const std::string& path);
// Reads the file in that format. Errors: missing_input, io, bad_data.
NamedTensors load_weights(const std::string& path);

// Copies each tensor over the one of the same name, whose storage, dtype and device stay. Names and
// shapes must match exactly, else nothing is copied and one line names what is missing, unexpected
// and misshapen. `path` is for that line. Errors: bad_data.
void copy_into(const NamedTensors& from, NamedTensors& into, const std::string& path);

}  // namespace tg
