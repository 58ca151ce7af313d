#pragma once
// Compressed bytes for tests, by the libraries that the tools use.
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <cstdlib>
#include <string>
#include <string_view>

namespace tg::test {

// A gzip member.
inline std::string gzip(std::string_view text) {
  constexpr int window_bits = 15, as_gzip = 16, memory_level = 8;
  z_stream stream{};
  if (deflateInit2(&stream, 9, Z_DEFLATED, window_bits + as_gzip, memory_level,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    std::abort();
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) std::abort();
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

// A frame with the length and the check sum that the tool writes.
inline std::string zstd(std::string_view text) {
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress2(context, packed.data(), packed.size(), text.data(), text.size()));
  ZSTD_freeCCtx(context);
  return packed;
}

// A stream.
inline std::string xz(std::string_view text) {
  std::string packed(lzma_stream_buffer_bound(text.size()), '\0');
  std::size_t size = 0;
  if (lzma_easy_buffer_encode(1, LZMA_CHECK_CRC64, nullptr,
                              reinterpret_cast<const std::uint8_t*>(text.data()), text.size(),
                              reinterpret_cast<std::uint8_t*>(packed.data()), &size,
                              packed.size()) != LZMA_OK)
    std::abort();
  packed.resize(size);
  return packed;
}

struct Packer {
  const char* suffix;
  std::string (*pack)(std::string_view);
};
inline const Packer kPackers[] = {{".gz", gzip}, {".zst", zstd}, {".xz", xz}};

}  // namespace tg::test
