#pragma once
// The two compressed containers that Python's lzma and zlib read and write, in memory.
#include <cstddef>
#include <string>
#include <string_view>

namespace tg {

// .xz, preset 6, one stream with CRC-64. In blocks of 1 MiB, on this machine's cores (up to 16): of
// 27 MB of six-bit weights 1.1 s instead of 22.9 on 16 cores, and no larger, since weights hold
// nothing that repeats further apart. The bytes do not depend on the number of cores.
std::string compress_xz(std::string_view bytes);
// zlib, level 9.
std::string compress_zlib(std::string_view bytes);

// The contents, at most max_size bytes, with memory for a small multiple of them (and 128 MiB for
// .xz), whatever the file says. One whole stream and nothing after it; `name` is for messages.
// Errors: bad_data.
std::string decompress_xz(std::string_view bytes, size_t max_size, const std::string& name);
std::string decompress_zlib(std::string_view bytes, size_t max_size, const std::string& name);

// By their first bytes; zlib's are those of level 7 to 9.
bool is_xz(std::string_view bytes);
bool is_zlib(std::string_view bytes);

}  // namespace tg
