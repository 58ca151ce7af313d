#pragma once
// Unpacks compressed bytes part by part, in memory that does not depend on how many there are.
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

namespace tg {

enum class Compression { gzip, zlib, xz, zstd, brotli };

// One stream: of gzip a member, of zstd a frame.
class Decompressor {
 public:
  struct Step {
    std::size_t taken = 0, made = 0;
    bool ended = false;      // the stream, with its check sum
    std::string_view fault;  // why it cannot be unpacked; empty: none so far
  };

  virtual ~Decompressor() = default;
  // Takes bytes from the front of `packed` and writes to `to`, which is not empty. Neither taken
  // nor made: it needs more than `packed` holds. At most 128 MiB of memory, whatever the bytes say.
  virtual Step step(std::string_view packed, std::span<char> to) = 0;
};

std::unique_ptr<Decompressor> make_decompressor(Compression compression);

// ".gz", "zlib", ".xz", ".zst" or "brotli", for messages and at the end of files' names.
std::string_view suffix_of(Compression compression);

}  // namespace tg
