#pragma once
// A file's bytes in order, unpacked as they are read where it is .gz, .zst or .xz: several streams
// behind each other too, as the tools write them. Memory does not depend on the file's size.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "files/decompressor.h"
#include "files/file.h"

namespace tg {

// Of a file with this name; nothing: not compressed.
std::optional<Compression> compression_named(std::string_view path);
// `path` without .gz, .zst or .xz.
std::string_view without_compression(std::string_view path);

class UnpackedFile {
 public:
  // "-" is the standard input. Compressed is what begins so or has such a name.
  // Errors: missing_input, io.
  explicit UnpackedFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  bool is_compressed() const { return compression_.has_value(); }
  // The next bytes, up to to.size(); 0: the end. Errors: io; bad_data (damaged, cut short, or 500
  // times as large unpacked, from 64 MiB on: with the byte of the file).
  std::size_t read(std::span<char> to);
  std::int64_t bytes_read() const { return read_; }  // of the file

 private:
  bool fill();  // reads more of the file; false: at its end
  bool begin_stream();
  void check_ratio() const;
  void refuse_text() const;
  [[noreturn]] void refuse(std::string_view why) const;

  File file_;
  std::optional<Compression> compression_;
  std::unique_ptr<Decompressor> stream_;  // that the next bytes belong to
  std::string buffer_;                    // of the file as it is
  std::string_view rest_;                 // of buffer_: not yet taken
  std::int64_t read_ = 0;
  std::int64_t made_ = 0;
  bool has_stream_ = false;  // at least one
};

}  // namespace tg
