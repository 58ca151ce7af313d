#pragma once
// Splits text files into documents, in order. A document is valid UTF-8 and not only white space,
// which is skipped. Files are read as files/unpacked_file.h and text/text_files.h say.
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/raw_documents.h"

namespace tg {

struct Document {
  std::string text;
  std::string path;  // its file, for messages
};

class DocumentReader {
 public:
  // Paths in order; "-" is the standard input. replace_invalid: U+FFFD for each byte that is not
  // UTF-8 and each lone surrogate in JSON, with one warning, instead of an error. text_key: the
  // member of JSON's objects that is the document.
  DocumentReader(std::vector<std::string> paths, Separator separator, bool replace_invalid,
                 std::string text_key = "text");

  // The next document; empty after the last.
  // Errors: missing_input; io; bad_data (not UTF-8: file and byte; a lone surrogate: file, line and
  // column; an object without a document: file, line and byte; what RawDocuments refuses).
  std::optional<Document> next();

  // Of the files, as they are stored. Safe from any thread.
  std::int64_t bytes_read() const { return bytes_read_; }

 private:
  std::string text_of(const RawDocument& raw);
  std::string text_of_json(const RawDocument& raw);
  // Whether `bytes`, which begin at byte `at` of the text, are UTF-8; refuses or warns of others.
  bool check_utf8(std::string_view bytes, std::int64_t at);
  void check_surrogate(const RawDocument& raw, std::string_view from_surrogate);

  std::vector<std::string> paths_;
  Separator separator_;
  bool replace_invalid_;
  std::string text_key_;
  bool warned_ = false;
  std::size_t next_path_ = 0;
  std::optional<RawDocuments> file_;
  std::int64_t read_before_ = 0;  // of the files before this one
  std::atomic<std::int64_t> bytes_read_ = 0;
};

}  // namespace tg
