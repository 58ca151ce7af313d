// .xz and zlib streams.
#include "files/compressed.h"
#include "tests/fuzz/target.h"

namespace tg::fuzz {

std::vector<std::string> seeds() {
  std::string text(3000, 'a');
  for (size_t i = 0; i < text.size(); i += 1 + i % 7) text[i] = static_cast<char>(i * i);
  return {compress_xz(text), compress_zlib(text), compress_xz(""), compress_zlib("")};
}

void read(std::string_view bytes) {
  constexpr size_t kMaxSize = 1 << 16;
  if (is_xz(bytes)) {
    decompress_xz(bytes, kMaxSize, "file");
  } else {
    decompress_zlib(bytes, kMaxSize, "file");
  }
}

}  // namespace tg::fuzz
