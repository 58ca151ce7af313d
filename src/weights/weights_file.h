#pragma once
// Reads weights of either format, and copies them into a model.
#include <string>

#include "base/error.h"
#include "weights/named_tensors.h"
#include "weights/state_dict.h"

namespace tg {

enum class WeightsFormat { safetensors, safetensors_index, torch };

// By content, not by name: a zip is a torch.save file, JSON the index of several safetensors files,
// anything else safetensors. Errors: missing_input, io, bad_data (a known file of another kind).
WeightsFormat weights_format(const std::string& path);
// Reads the file in that format, with the names that it has. Errors: missing_input, io, bad_data.
StateDict load_weights(const std::string& path);

// Copies each tensor into the one of the same name, which keeps its storage, dtype and device.
// Names and shapes must match exactly; otherwise nothing is copied and the error lists the missing,
// the unexpected, those of other shapes and those that are no floating-point numbers. Every model
// that is read comes through here, so that no weight of one is NaN or infinite. `path` is for the
// message. Errors: `misfit`; internal, naming the first tensor that is not finite in its new dtype.
void copy_into(const NamedTensors& from, NamedTensors& into, const std::string& path,
               ExitCode misfit = ExitCode::bad_data);

}  // namespace tg
