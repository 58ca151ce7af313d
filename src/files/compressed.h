#pragma once
// Compressed containers that Python's lzma, zlib and brotli read and write, in memory.
#include <cstddef>
#include <string>
#include <string_view>

namespace tg {

// Compresses to .xz: preset 6, one stream with CRC-64, in blocks of 1 MiB on this machine's cores
// (up to 16). 27 MB of six-bit weights take 1.1 s on 16 cores instead of 22.9 s, and are no larger,
// since weights have no repetitions at longer distances. The bytes do not depend on the number of
// cores. Preset 9 differs only in a larger dictionary, which such blocks never fill.
std::string compress_xz(std::string_view bytes);
// Compresses to zlib at level 9.
std::string compress_zlib(std::string_view bytes);
constexpr int kBrotliWindow = 22;  // Python's default for brotli.compress()
// Compresses with brotli at quality 11 and a window of 2^window_bits bytes (10 to 24), on one
// thread, at about 0.5 MB/s.
std::string compress_brotli(std::string_view bytes, int window_bits);

// Returns the contents, at most max_size bytes, using memory for a small multiple of them (and 128
// MiB for .xz), whatever the file declares. Expects one complete stream and nothing after it;
// `name` is for messages. brotli has no checksum: damage may go unnoticed. Throws Error(bad_data).
std::string decompress_xz(std::string_view bytes, size_t max_size, const std::string& name);
std::string decompress_zlib(std::string_view bytes, size_t max_size, const std::string& name);
std::string decompress_brotli(std::string_view bytes, size_t max_size, const std::string& name);

// Returns the first `count` bytes of the contents of a stream, which may be truncated; fewer if the
// contents are shorter, or truncated or damaged earlier. brotli has no magic number: its decoded
// beginning identifies it.
std::string xz_begin(std::string_view bytes, size_t count);
std::string brotli_begin(std::string_view bytes, size_t count);

// Recognize the format by its first bytes; for zlib, the first bytes of levels 7 to 9.
bool is_xz(std::string_view bytes);
bool is_zlib(std::string_view bytes);

}  // namespace tg
