#pragma once
#include <fmt/format.h>

#include <string>

#include "files/file.h"
#include "files/xxh3.h"

namespace tg {

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
