#pragma once
// Decompresses part by part, in memory that does not depend on the size of the contents.
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

namespace tg {

enum class Compression { gzip, zlib, xz, zstd, brotli };

// Decodes one stream: a gzip member or a zstd frame.
class Decompressor {
 public:
  struct Step {
    std::size_t taken = 0, made = 0;
    bool ended = false;      // the stream is complete and its checksum verified
    std::string_view fault;  // why it cannot be decoded; empty: no error so far
  };

  Decompressor() = default;
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;
  virtual ~Decompressor() = default;
  // Consumes bytes from the front of `packed` and writes to `to`, which is not empty. If both
  // counts are 0, it needs more input than `packed` has. Uses at most 128 MiB of memory, whatever
  // the bytes declare.
  virtual Step step(std::string_view packed, std::span<char> to) = 0;
};

std::unique_ptr<Decompressor> make_decompressor(Compression compression);

// Returns ".gz", "zlib", ".xz", ".zst" or "brotli", for messages and as file name suffixes.
std::string_view suffix_of(Compression compression);

// Returns the bytes that begin a stream: for zlib what levels 7 to 9 write, for brotli none.
std::string_view magic_of(Compression compression);

}  // namespace tg
