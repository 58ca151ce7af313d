// .xz, zlib and, behind the letter b, brotli streams.
#include "files/compressed.h"
#include "tests/fuzz/target.h"

namespace tg::fuzz {

std::vector<std::string> seeds() {
  std::string text(3000, 'a');
  for (size_t i = 0; i < text.size(); i += 1 + i % 7) text[i] = static_cast<char>(i * i);
  return {compress_xz(text),
          compress_zlib(text),
          compress_xz(""),
          compress_zlib(""),
          "b" + compress_brotli(text, 22),
          "b" + compress_brotli(text, 10),
          "b" + compress_brotli("", 24)};
}

void read(std::string_view bytes) {
  constexpr size_t kMaxSize = 1 << 16;
  if (is_xz(bytes)) {
    xz_begin(bytes, 100);
    decompress_xz(bytes, kMaxSize, "file");
  } else if (bytes.starts_with('b')) {
    brotli_begin(bytes.substr(1), 100);
    decompress_brotli(bytes.substr(1), kMaxSize, "file");
  } else {
    decompress_zlib(bytes, kMaxSize, "file");
  }
}

}  // namespace tg::fuzz
