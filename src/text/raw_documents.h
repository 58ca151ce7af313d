#pragma once
// The documents of one file as they stand there, in order: parts of a text, or JSON objects.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "text/text_buffer.h"
#include "text/text_files.h"

namespace tg {

enum class Separator {
  file,        // a file is a document
  blank_line,  // documents are separated by empty lines, that is two or more line ends
  line,        // a line is a document
};

struct RawDocument {
  std::string_view bytes;  // until the next call
  std::int64_t at = 0;     // of its first byte in the text
  TextPosition position;   // of the same, in JSON
};

class RawDocuments {
 public:
  // Whatever the separator, JSON's documents are its objects. text_key: for the command that
  // converts a file of another format.
  // Errors: missing_input, io, bad_data (a known format that is no text; .json that is neither
  // lines nor an array of objects; what UnpackedFile refuses).
  RawDocuments(const std::string& path, Separator separator, const std::string& text_key);

  // Nothing: the file has ended. Errors: io, bad_data (a document of more than 1 GiB; an array that
  // is cut or holds other than objects).
  std::optional<RawDocument> next() { return is_array_ ? take_element() : take_part(); }

  bool is_json() const { return kind_ != TextKind::plain; }
  const TextBuffer& text() const { return text_; }

 private:
  std::optional<RawDocument> take_part();
  std::optional<RawDocument> take_separated();
  void find_form_of_json();
  std::optional<RawDocument> take_element();
  std::size_t find_object_end();
  std::optional<char> skip_json_space();  // → the character behind it
  [[noreturn]] void refuse_json(const char* expected) const;
  RawDocument take(std::size_t end, std::size_t next);
  void take(std::size_t bytes);

  TextBuffer text_;
  TextKind kind_;
  Separator separator_;
  bool is_array_ = false;     // and its end is not reached
  bool has_element_ = false;  // before text_
  std::size_t searched_ = 0;  // of text_: no separator begins before this
};

}  // namespace tg
