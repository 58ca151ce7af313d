#pragma once
// Hashes of files, to detect damage and to compare files.
#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "files/file.h"
#include "files/xxh3.h"

namespace tg {

// Size and hash of a whole file.
struct FileDigest {
  std::uint64_t bytes = 0, xxh3 = 0;
  bool operator==(const FileDigest&) const = default;
};

// Reads the file once. Throws Error(missing_input) and Error(io).
FileDigest digest_of(const std::string& path);

// {"bytes": 12, "xxh3": "16 hexadecimal digits"}, for a JSON object that describes a file.
nlohmann::json digest_json(const FileDigest& digest);
// Reads digest_json()'s fields of `object`. Throws Error(bad_data) with the prefix `where`.
FileDigest digest_of_json(const nlohmann::json& object, const std::string& where);

// Digest of files' contents, independent of their paths and cheap for any size: covers, for each
// file, the size and up to eight blocks of 16 KiB, the first, the last and others evenly spaced
// between them (all of a file of up to 128 KiB). Detects different data, not every changed byte.
class SampledDigest {
 public:
  // Adds files in order. Throws Error(io).
  void add(const File& file);
  // Returns the digest of all files so far, 16 hexadecimal digits.
  std::string text() const { return fmt::format("{:016x}", xxh3_.value()); }

 private:
  Xxh3 xxh3_;
};

}  // namespace tg
