#pragma once
// torch.save files: writes what Python's torch.load(weights_only=True) reads, and reads what
// torch.save wrote of plain data. Reading executes nothing and allocates no more than a small
// multiple of the file's size.
#include <functional>
#include <string>
#include <string_view>

#include "weights/pickle/pickle_value.h"
#include "weights/tensors/named_tensors.h"

namespace tg {

// Saves a dict of tensors: F32, F64, F16, BF16, I64, I32, I16, I8, U8 or BOOL, of any device,
// strides and requires_grad; each tensor gets its own storage. Written through AtomicFile. Throws
// Error(cannot_create), Error(io), and Error(internal) for other dtypes.
void save_torch(const std::string& path, const NamedTensors& tensors);
// Loads a state dict: CPU tensors with the saved strides, which share storages as they did when
// saved. Throws Error(missing_input), Error(io) and Error(bad_data).
StateDict load_torch(const std::string& path);

// Save and load any plain data, in a file or in memory (`name` is for messages).
void save_torch_value(const std::string& path, const PickleValue& value);
std::string torch_value_bytes(const PickleValue& value);
PickleValue parse_torch_value(std::string_view bytes, const std::string& name);

// Passes the archive to `sink` in pieces. Rethrows exceptions of `sink`.
using ByteSink = std::function<void(const void* bytes, size_t count)>;
void write_torch_value(const ByteSink& sink, const PickleValue& value);

}  // namespace tg
