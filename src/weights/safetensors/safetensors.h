#pragma once
// safetensors: 64-bit little-endian header length, JSON header (8-byte aligned, padded with
// spaces), then the tensors' bytes without gaps. Supports F32, F64, F16, BF16, I64, I32, I16, I8,
// U8 and BOOL of any shape.
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "files/atomic_file.h"
#include "files/byte_source.h"
#include "weights/tensors/named_tensors.h"

namespace tg {

using Metadata = std::map<std::string, std::string>;

struct SafetensorsEntry {
  std::string name;
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;  // bytes from the end of the header
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the header's order
  Metadata metadata;
};

// Saves tensors of any device, strides and requires_grad, with distinct names, through AtomicFile;
// returns its digest. Throws Error(cannot_create), Error(io), and Error(internal) for a dtype that
// the format lacks or a duplicate name.
FileDigest save_safetensors(const std::string& path, const NamedTensors& tensors,
                            const Metadata& metadata = {});

// Loads contiguous CPU tensors in the header's order. Every byte of the file must belong to exactly
// one tensor; nothing is allocated beyond the file's own size. Throws Error(missing_input),
// Error(io), and Error(bad_data) with file, tensor, expected and found value.
NamedTensors load_safetensors(const std::string& path, Metadata* metadata = nullptr);
// Reads from any source the tensors whose names are `wanted`; empty: all. Reads every byte once, in
// order. Checks and throws as load_safetensors() does.
using NameFilter = std::function<bool(std::string_view name)>;
NamedTensors read_safetensors(const ByteSource& source, Metadata* metadata = nullptr,
                              const NameFilter& wanted = {});
// Loads and checks the header without reading the tensors' bytes.
SafetensorsHeader load_safetensors_header(const std::string& path);
// Parses the JSON header strictly: an object of tensors (dtype, shape, data_offsets, each once) and
// of __metadata__ (strings), no name twice. Does not check the offsets. Keeps only the entries, so
// a hostile header takes no more memory than its own size. Throws Error(bad_data), naming `file`.
SafetensorsHeader parse_safetensors_header(std::string_view json, const std::string& file);

}  // namespace tg
