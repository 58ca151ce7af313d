#pragma once
// Reads the records of a torch.save archive: a zip file of stored, never compressed, records.
// Rejects whatever torch.save does not write (compression, encryption, comments, duplicate names),
// and checks every declared size against the file's.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "files/byte_source.h"

namespace tg {

struct ZipRecord {
  uint64_t offset = 0;  // offset of the data in the file
  uint64_t size = 0;
  uint32_t crc = 0;  // 0: torch.save was configured to compute none
};

class ZipReader {
 public:
  // Reads the central directory. `source` must outlive this object. Throws Error(bad_data) and
  // Error(io).
  explicit ZipReader(const ByteSource& source);

  // Returns the archive's top folder: names are FOLDER/data.pkl, FOLDER/data/0, …
  const std::string& folder() const { return folder_; }
  const ZipRecord* find(const std::string& name) const;  // name without the folder; null: none
  // Reads all record.size bytes and checks their CRC-32. Throws Error(bad_data) and Error(io).
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
