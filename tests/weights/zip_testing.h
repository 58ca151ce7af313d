#pragma once
// A zip writer for crafted archives: each record's header fields can lie.
#include <cstdint>
#include <string>
#include <vector>

#include "files/crc32.h"
#include "files/zip_reader.h"

namespace tg {

struct CraftedRecord {
  std::string name{}, bytes{};
  uint16_t method = 0, flags = 0;
  int64_t claimed_size = -1;    // in the directory; -1: the true one
  int64_t claimed_offset = -1;  // of the local header
  bool with_crc = true;
};

template <typename T>
void put_number(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

inline std::string crafted_zip(const std::vector<CraftedRecord>& records) {
  std::string file, directory;
  for (const CraftedRecord& record : records) {
    const auto offset = static_cast<uint32_t>(
        record.claimed_offset < 0 ? static_cast<int64_t>(file.size()) : record.claimed_offset);
    const auto size = static_cast<uint32_t>(
        record.claimed_size < 0 ? static_cast<int64_t>(record.bytes.size()) : record.claimed_size);
    const uint32_t crc = record.with_crc ? crc32(record.bytes.data(), record.bytes.size()) : 0;
    const auto name_size = static_cast<uint16_t>(record.name.size());
    file += "PK\3\4";
    for (uint16_t field : {uint16_t{20}, record.flags, record.method, uint16_t{0}, uint16_t{0}})
      put_number(file, field);
    for (uint32_t field : {crc, size, size}) put_number(file, field);
    put_number(file, name_size);
    put_number(file, uint16_t{0});
    file += record.name + record.bytes;

    directory += "PK\1\2";
    for (uint16_t field :
         {uint16_t{20}, uint16_t{20}, record.flags, record.method, uint16_t{0}, uint16_t{0}})
      put_number(directory, field);
    for (uint32_t field : {crc, size, size}) put_number(directory, field);
    put_number(directory, name_size);
    directory.append(2 + 2 + 2 + 2 + 4, '\0');
    put_number(directory, offset);
    directory += record.name;
  }
  const auto start = static_cast<uint32_t>(file.size());
  file += directory + "PK\5\6";
  for (size_t field : {size_t{0}, size_t{0}, records.size(), records.size()})
    put_number(file, static_cast<uint16_t>(field));
  put_number(file, static_cast<uint32_t>(directory.size()));
  put_number(file, start);
  put_number(file, uint16_t{0});
  return file;
}

}  // namespace tg
