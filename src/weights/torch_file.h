#pragma once
// Files of torch.save: what Python's torch.load(weights_only=True) reads, and what torch.save wrote
// of plain data. Reading executes nothing and allocates no more than a small multiple of the file's
// size.
#include <functional>
#include <string>
#include <string_view>

#include "weights/named_tensors.h"
#include "weights/pickle_value.h"
#include "weights/state_dict.h"

namespace tg {

// A dict of tensors. F32, F64, F16, BF16, I64, I32, I16, I8, U8, BOOL; any device, strides and
// gradient flag; each tensor gets a storage of its own. Through AtomicFile. Errors: cannot_create,
// io; internal for other dtypes.
void save_torch(const std::string& path, const NamedTensors& tensors);
// A state dict: CPU tensors with the saved strides, which share storages as when they were saved.
// Errors: missing_input, io, bad_data.
StateDict load_torch(const std::string& path);

// The same for any plain data, in memory too (`name` is for messages).
void save_torch_value(const std::string& path, const PickleValue& value);
std::string torch_value_bytes(const PickleValue& value);
PickleValue parse_torch_value(std::string_view bytes, const std::string& name);

// Passes the archive to `sink` in pieces. Exceptions of `sink` are rethrown.
using ByteSink = std::function<void(const void* bytes, size_t count)>;
void write_torch_value(const ByteSink& sink, const PickleValue& value);

}  // namespace tg
