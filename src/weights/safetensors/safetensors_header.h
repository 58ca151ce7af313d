#pragma once
// JSON header of a safetensors file. A SAX parser keeps only the entries, so a hostile header takes
// no more memory than its own size.
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tg {

struct SafetensorsEntry {
  std::string name;
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;  // bytes from the end of the header
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the header's order
  std::map<std::string, std::string> metadata;
};

// Parses strictly: an object of tensors (dtype, shape, data_offsets, each once) and of __metadata__
// (strings), no name twice. Does not check the offsets. Throws Error(bad_data), naming `file`.
SafetensorsHeader parse_safetensors_header(std::string_view json, const std::string& file);

}  // namespace tg
