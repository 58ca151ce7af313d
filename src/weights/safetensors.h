#pragma once
// safetensors: u64 little-endian header length, JSON header (8-byte aligned, padded with spaces),
// then the tensors' bytes without gaps. F32, F64, F16, BF16, I64, I32, I16, I8, U8, BOOL, of any
// shape.
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "files/atomic_file.h"
#include "files/byte_source.h"
#include "weights/named_tensors.h"
#include "weights/safetensors_header.h"

namespace tg {

using Metadata = std::map<std::string, std::string>;

// Any device, strides and gradient flag; names must differ. Through AtomicFile → its digest.
// Errors: cannot_create, io; internal for a dtype the format lacks or a name twice.
FileDigest save_safetensors(const std::string& path, const NamedTensors& tensors,
                            const Metadata& metadata = {});

// Contiguous CPU tensors in the header's order. Every byte of the file must belong to exactly one
// tensor; nothing is allocated beyond the file's own size.
// Errors: missing_input, io, bad_data naming file, tensor, expected and found.
NamedTensors load_safetensors(const std::string& path, Metadata* metadata = nullptr);
// The same of any source, returning the tensors whose names are `wanted`; empty: all. Reads every
// byte once, from the first to the last.
using NameFilter = std::function<bool(std::string_view name)>;
NamedTensors read_safetensors(const ByteSource& source, Metadata* metadata = nullptr,
                              const NameFilter& wanted = {});
// What is in the file, checked likewise, without the tensors' bytes.
SafetensorsHeader load_safetensors_header(const std::string& path);
// The same as load_safetensors() of a file's bytes; `name` is for messages. Errors: bad_data.
NamedTensors parse_safetensors(std::string_view bytes, const std::string& name,
                               Metadata* metadata = nullptr);

}  // namespace tg
