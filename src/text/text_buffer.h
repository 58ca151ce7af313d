#pragma once
// The part of a file's text that is being read.
#include <cstdint>
#include <string>
#include <string_view>

#include "files/unpacked_file.h"
#include "text/text_position.h"

namespace tg {

class TextBuffer {
 public:
  // Errors: those of UnpackedFile.
  explicit TextBuffer(const std::string& path) : file_(path) {}

  const UnpackedFile& file() const { return file_; }
  // What is read and not yet taken, until the next fill().
  std::string_view text() const { return std::string_view(buffer_).substr(begin_); }
  std::int64_t at() const { return offset_ + static_cast<std::int64_t>(begin_); }  // of text()
  TextPosition position() const { return position_; }                              // of text()
  bool ended() const { return ended_; }  // nothing follows text()

  // Reads more behind text(); false: at the end. Errors: io; bad_data (text() is longer than 1 GiB;
  // what UnpackedFile refuses).
  bool fill();
  // Until text() has so many bytes or ends with the file.
  void fill_to(std::size_t bytes);
  void take(std::size_t bytes);
  // As take(), and counts lines and columns.
  void take_counted(std::size_t bytes);

  // Whether the bytes around that one, which is read, look like text, if in another encoding.
  bool looks_like_text(std::int64_t at) const;

 private:
  UnpackedFile file_;
  std::string buffer_;
  std::size_t begin_ = 0;
  std::int64_t offset_ = 0;  // of buffer_
  TextPosition position_;
  bool ended_ = false;
};

}  // namespace tg
