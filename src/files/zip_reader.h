#pragma once
// The records of a torch.save archive: a zip whose records are stored, never compressed. Anything
// that torch.save does not write (compression, encryption, comments, names twice) is refused, and
// every declared size is checked against the file's.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "files/byte_source.h"

namespace tg {

struct ZipRecord {
  uint64_t offset = 0;  // of the data
  uint64_t size = 0;
  uint32_t crc = 0;  // 0: torch.save was told to compute none
};

class ZipReader {
 public:
  // Reads the directory. `source` must outlive it. Errors: bad_data, io.
  explicit ZipReader(const ByteSource& source);

  // The archive's top folder: names are FOLDER/data.pkl, FOLDER/data/0, …
  const std::string& folder() const { return folder_; }
  const ZipRecord* find(const std::string& name) const;  // below the folder; null: none
  // All of record.size bytes, checked against its CRC-32. Errors: bad_data, io.
  void read(const ZipRecord& record, void* to) const;

 private:
  struct Directory {
    uint64_t offset = 0, size = 0, count = 0;
  };
  Directory find_directory() const;
  uint64_t data_offset(uint64_t local_header, std::string_view name) const;
  [[noreturn]] void bad(std::string_view what) const;

  const ByteSource& source_;
  std::string folder_;
  std::map<std::string, ZipRecord> records_;
};

}  // namespace tg
