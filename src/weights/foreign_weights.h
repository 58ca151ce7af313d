#pragma once
#include <string>

#include "files/byte_source.h"
#include "weights/tensors/named_tensors.h"

namespace tg {

// Throws Error(bad_data) for a file that begins like GGUF, ONNX, HDF5 or another format without
// weights for train_gpt; the message names the format and says what to do. Throws Error(io).
void refuse_foreign_file(const ByteSource& source);

// Throws Error(bad_data) for weights with the names of another model, such as GPT-2; `path` is for
// the message.
void refuse_foreign_names(const NamedTensors& tensors, const std::string& path);

}  // namespace tg
