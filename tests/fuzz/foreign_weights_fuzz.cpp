// The first bytes of a file that is given as a model.
#include "files/byte_source.h"
#include "tests/fuzz/target.h"
#include "weights/foreign_weights.h"

namespace tg::fuzz {

std::vector<std::string> seeds() {
  using namespace std::string_literals;
  return {"GGUF\3\0\0\0"s,     "\x08\x08\x12\x07pytorch",
          "\x89HDF\r\n\x1a\n", "\xc6\xd7\x34\x01\3\0\0\0"s,
          "\x80\x04\x95",      "version https://git-lfs"};
}

void read(std::string_view bytes) {
  refuse_foreign_file(MemorySource(bytes, "file"));
}

}  // namespace tg::fuzz
