#pragma once
#include <string>

#include "files/byte_source.h"
#include "weights/named_tensors.h"

namespace tg {

// Refuses a file that begins like GGUF, ONNX, HDF5 or another format without weights for train_gpt:
// names the format and says what to do. Errors: bad_data, io.
void refuse_foreign_file(const ByteSource& source);

// Refuses weights that have the names of another model, such as GPT-2; `path` is for the message.
// Errors: bad_data.
void refuse_foreign_names(const NamedTensors& tensors, const std::string& path);

}  // namespace tg
