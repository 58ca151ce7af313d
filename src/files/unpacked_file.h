#pragma once
// Reads a file's bytes in order, decompressed if it is .gz, .zst or .xz, with several concatenated
// streams too, as the tools write them. Memory does not depend on the file's size.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "files/decompressor.h"
#include "files/file.h"

namespace tg {

// Returns the compression that the file name implies; nullopt: none.
std::optional<Compression> compression_named(std::string_view path);
// Returns `path` without .gz, .zst or .xz.
std::string_view without_compression(std::string_view path);

class UnpackedFile {
 public:
  // "-" is standard input. A file is compressed if its first bytes or its name say so. Throws
  // Error(missing_input) and Error(io).
  explicit UnpackedFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  bool is_compressed() const { return compression_.has_value(); }
  // Reads the next bytes, up to to.size(); returns 0 at the end. Throws Error(io), and
  // Error(bad_data) with the byte offset in the file if the data is damaged, truncated or, beyond
  // 64 MiB, expands more than 500 times.
  std::size_t read(std::span<char> to);
  std::int64_t bytes_read() const { return read_; }  // from the file, before decompression

 private:
  bool fill();  // reads more of the file; returns false at its end
  bool begin_stream();
  void refuse_text() const;
  [[noreturn]] void refuse(std::string_view why) const;

  File file_;
  std::optional<Compression> compression_;
  std::unique_ptr<Decompressor> stream_;  // decoder of the current stream; null between streams
  std::string buffer_;                    // bytes of the file
  std::string_view rest_;                 // unconsumed part of buffer_
  std::int64_t read_ = 0;
  std::int64_t made_ = 0;
  bool has_stream_ = false;  // a stream was found
};

}  // namespace tg
