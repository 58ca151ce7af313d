#pragma once
// Splits text files into documents, in order. A document is valid UTF-8 and not only white space,
// which is skipped. Of a file NAME.jsonl every line is a JSON object whose "text" is a document,
// whatever the separator.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace tg {

enum class Separator {
  file,        // a file is a document
  blank_line,  // documents are separated by empty lines, that is two or more line ends
  line,        // a line is a document
};

struct Document {
  std::string text;
  std::string path;  // its file, for messages
};

class DocumentReader {
 public:
  // Paths in order; "-" is the standard input. replace_invalid: U+FFFD for each byte that is not
  // UTF-8, with one warning, instead of an error.
  DocumentReader(std::vector<std::string> paths, Separator separator, bool replace_invalid);

  // The next document; empty after the last.
  // Errors: missing_input; bad_data (not UTF-8: file and byte; a document of more than 1 GiB; a
  // line of a .jsonl file without a document: file, line and byte); io.
  std::optional<Document> next();

  std::int64_t bytes_read() const { return bytes_read_; }

 private:
  void open_next();  // opens the next path
  void skip_byte_order_mark();
  bool fill();                             // reads more of the file; false: at its end
  std::optional<std::string_view> take();  // the next raw document of the file
  std::optional<std::string_view> take_separated(Separator separator);
  // The text of a raw document at byte `at` of the current file.
  std::string text_of(std::string_view raw, std::int64_t at);
  void check(std::string& text, std::int64_t at);

  std::vector<std::string> paths_;
  Separator separator_;
  bool replace_invalid_;
  bool warned_ = false;
  std::size_t next_path_ = 0;
  std::optional<File> file_;
  bool is_jsonl_ = false;   // the current file
  std::int64_t taken_ = 0;  // raw documents of the current file
  std::string buffer_;      // of the current file; from `begin_` on not yet taken
  std::size_t begin_ = 0;
  std::size_t searched_ = 0;  // no separator begins before this
  std::int64_t offset_ = 0;   // buffer_'s position in the file
  bool ended_ = false;
  std::int64_t bytes_read_ = 0;
};

}  // namespace tg
