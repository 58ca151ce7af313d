#pragma once
// Raw documents of one file, in order: parts of a text, or JSON objects.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "text/text_buffer.h"
#include "text/text_files.h"

namespace tg {

enum class Separator {
  file,        // a file is a document
  blank_line,  // documents are separated by empty lines: two or more line ends
  line,        // a line is a document
};

struct RawDocument {
  std::string_view bytes;  // valid until the next call
  std::int64_t at = 0;     // offset of the first byte in the text
  TextPosition position;   // position of the first byte; set for JSON
};

class RawDocuments {
 public:
  // For JSON the separator is ignored: each object is a document. `text_key` is for the message
  // with the command that converts a file of another format. Throws Error(missing_input),
  // Error(io), and Error(bad_data) for a known non-text format, a .json file that is neither lines
  // nor an array of objects, and what UnpackedFile rejects.
  RawDocuments(const std::string& path, Separator separator, const std::string& text_key);

  // Returns the next document; nullopt at the end of the file. Throws Error(io), and
  // Error(bad_data) for a document of more than 1 GiB and for an array that is truncated or has
  // elements other than objects.
  std::optional<RawDocument> next() { return is_array_ ? take_element() : take_part(); }

  bool is_json() const { return kind_ != TextKind::plain; }
  const TextBuffer& text() const { return text_; }

 private:
  std::optional<RawDocument> take_part();
  std::optional<RawDocument> take_separated();
  std::optional<RawDocument> take_element();
  std::size_t find_object_end();
  std::optional<char> skip_json_space();  // returns the next character
  [[noreturn]] void refuse_json(const char* expected) const;
  RawDocument take(std::size_t end, std::size_t next);
  void take(std::size_t bytes);

  TextBuffer text_;
  TextKind kind_;
  Separator separator_;
  bool is_array_ = false;     // inside the array
  bool has_element_ = false;  // an element was read
  std::size_t searched_ = 0;  // no separator begins in text_ before this offset
};

}  // namespace tg
