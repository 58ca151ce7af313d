#pragma once
// The compressed containers that Python's lzma, zlib and brotli read and write, in memory.
#include <cstddef>
#include <string>
#include <string_view>

namespace tg {

// .xz, preset 6, one stream with CRC-64. In blocks of 1 MiB, on this machine's cores (up to 16): of
// 27 MB of six-bit weights 1.1 s instead of 22.9 on 16 cores, and no larger, since weights hold
// nothing that repeats further apart. The bytes do not depend on the number of cores. Preset 9 has
// a larger dictionary, which such blocks never fill, and no other difference.
std::string compress_xz(std::string_view bytes);
// zlib, level 9.
std::string compress_zlib(std::string_view bytes);
constexpr int kBrotliWindow = 22;  // window_bits of Python's brotli.compress()
// brotli, quality 11, with a window of 2^window_bits bytes (10 to 24). One thread, some 0.5 MB/s.
std::string compress_brotli(std::string_view bytes, int window_bits);

// The contents, at most max_size bytes, with memory for a small multiple of them (and 128 MiB for
// .xz), whatever the file says. One whole stream and nothing after it; `name` is for messages.
// brotli has no checksum: damage may give other contents. Errors: bad_data.
std::string decompress_xz(std::string_view bytes, size_t max_size, const std::string& name);
std::string decompress_zlib(std::string_view bytes, size_t max_size, const std::string& name);
std::string decompress_brotli(std::string_view bytes, size_t max_size, const std::string& name);

// The first `count` bytes (or so many as there are, up to where it is cut short or damaged) of what
// a stream unpacks to, which may be cut short itself. brotli has no magic: this shows what it is.
std::string xz_begin(std::string_view bytes, size_t count);
std::string brotli_begin(std::string_view bytes, size_t count);

// By their first bytes; zlib's are those of level 7 to 9.
bool is_xz(std::string_view bytes);
bool is_zlib(std::string_view bytes);

}  // namespace tg
