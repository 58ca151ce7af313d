#pragma once
#include <string>

#include "files/file.h"
#include "files/xxh3.h"

namespace tg {

// A digest of files' content, wherever they are, that takes little time however large they are: of
// each file the size, and up to eight blocks of 16 KiB, the first, the last and others evenly
// between them, which are all of a file of up to 128 KiB. Finds other data, not every changed byte.
class SampledDigest {
 public:
  // In order. Errors: io.
  void add(const File& file);
  std::string text() const;  // of all files so far, 16 hexadecimal digits

 private:
  Xxh3 xxh3_;
};

}  // namespace tg
