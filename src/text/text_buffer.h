#pragma once
// Window of a file's text during reading.
#include <cstdint>
#include <string>
#include <string_view>

#include "files/unpacked_file.h"
#include "text/text_lines.h"

namespace tg {

class TextBuffer {
 public:
  // Throws what UnpackedFile throws.
  explicit TextBuffer(const std::string& path) : file_(path) {}

  const UnpackedFile& file() const { return file_; }
  // Returns what was read and not yet taken; valid until the next fill().
  std::string_view text() const { return std::string_view(buffer_).substr(begin_); }
  // Offset and position of text().
  std::int64_t at() const { return offset_ + static_cast<std::int64_t>(begin_); }
  TextPosition position() const { return position_; }
  bool ended() const { return ended_; }  // nothing follows text()

  // Reads more text after text(); returns false at the end. Throws Error(io), and Error(bad_data)
  // if text() is longer than 1 GiB or for what UnpackedFile rejects.
  bool fill();
  // Reads until text() has that many bytes or the file ends.
  void fill_to(std::size_t bytes) {
    while (text().size() < bytes && fill()) {
    }
  }
  void take(std::size_t bytes) { begin_ += bytes; }
  // Takes bytes and counts their lines and columns.
  void take_counted(std::size_t bytes) {
    position_.advance(text().substr(0, bytes));
    take(bytes);
  }

  // Returns whether the bytes around offset `at`, which was read, look like text, possibly in
  // another encoding.
  bool looks_like_text(std::int64_t at) const;

 private:
  UnpackedFile file_;
  std::string buffer_;
  std::size_t begin_ = 0;
  std::int64_t offset_ = 0;  // offset of buffer_ in the text
  TextPosition position_;
  bool ended_ = false;
};

}  // namespace tg
