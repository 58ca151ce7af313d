// .gz, .zst and .xz as streams.
#include "files/unpacked_file.h"
#include "tests/files/packed.h"
#include "tests/fuzz/target.h"

namespace tg::fuzz {

std::vector<std::string> seeds() {
  std::string text(3000, 'a');
  for (size_t i = 0; i < text.size(); i += 1 + i % 7) text[i] = static_cast<char>(i * i);
  std::vector<std::string> files;
  for (const auto& [suffix, pack] : test::kPackers) {
    files.push_back(pack(text));
    files.push_back(pack("one\n") + pack("") + pack("two\n"));
  }
  return files;
}

void read(std::string_view bytes) {
  static ScratchFile file;
  static std::string text(1 << 16, '\0');
  file.put(bytes);
  UnpackedFile unpacked(file.path());
  while (unpacked.read(text) > 0) {
  }
}

}  // namespace tg::fuzz
