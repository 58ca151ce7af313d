#pragma once
// Text files cut into documents, in order. A document is valid UTF-8 with at least one character
// that is no white space; white space alone between separators is skipped. A file NAME.jsonl is cut
// into lines whatever the separator, and each line is a JSON object whose "text" is the document.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/file.h"

namespace tg {

enum class Separator {
  file,        // a file is a document
  blank_line,  // documents are separated by empty lines
  line,        // a line is a document
};

struct Document {
  std::string text;
  std::string path;  // where it is from, for messages
};

class DocumentReader {
 public:
  // Paths in order; "-" is the standard input. replace_invalid: U+FFFD for each byte that is not
  // UTF-8, with one warning, instead of an error.
  DocumentReader(std::vector<std::string> paths, Separator separator, bool replace_invalid);

  // The next document; nothing after the last.
  // Errors: missing_input; bad_data (not UTF-8: file and byte; a document of more than 1 GiB; a
  // line of a .jsonl file without a document: file, line and byte); io.
  std::optional<Document> next();

  std::int64_t bytes_read() const { return bytes_read_; }

 private:
  void open_next();                        // the next path
  bool fill();                             // more of the current file; false: it has ended
  std::optional<std::string_view> take();  // the next raw document of the current file
  // What a raw document, which begins at byte `at` of the current file, says.
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
  std::string buffer_;      // of the current file, from `begin_` on not yet handed out
  std::size_t begin_ = 0;
  std::size_t searched_ = 0;  // no separator ends before this
  std::int64_t offset_ = 0;   // of buffer_ in the file
  bool ended_ = false;
  std::int64_t bytes_read_ = 0;
};

// Bytes of `text` before the first that is not UTF-8 (overlong forms and surrogates are not).
std::size_t valid_utf8_prefix(std::string_view text);

}  // namespace tg
