#pragma once
// Splits text files into documents, in order. A document is valid UTF-8; documents of only white
// space are skipped. Files are read as described in files/unpacked_file.h and text/text_files.h,
// files .parquet as in text/parquet_texts.h.
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/parquet_texts.h"
#include "text/raw_documents.h"

namespace tg {

struct Document {
  std::string text;
  std::string path;  // the file, for messages
};

class DocumentReader {
 public:
  // `paths` in order; "-" is standard input. `replace_invalid`: replaces each invalid UTF-8 byte
  // and each lone surrogate in JSON by U+FFFD, with one warning, instead of throwing. `text_key`:
  // the member of the JSON objects, and the Parquet column, that holds the document.
  DocumentReader(std::vector<std::string> paths, Separator separator, bool replace_invalid,
                 std::string text_key = "text");

  // Returns the next document; nullopt after the last. Throws Error(missing_input), Error(io), and
  // Error(bad_data) for invalid UTF-8 (with file and byte), a lone surrogate (file, line and
  // column), an object without a document (file, line and byte), or what RawDocuments and
  // ParquetTexts reject.
  std::optional<Document> next();

  // Returns the number of bytes read from the files as stored. Thread-safe.
  std::int64_t bytes_read() const { return bytes_read_; }

 private:
  // Return the next document of the open file, which may be blank; nullopt at its end.
  std::optional<Document> next_of_text();
  std::optional<Document> next_of_parquet();
  std::string text_of(const RawDocument& raw);
  std::string text_of_json(const RawDocument& raw);
  // Returns whether `bytes`, at offset `at` of the text, are valid UTF-8; throws or warns if not.
  bool check_utf8(std::string_view bytes, std::int64_t at);
  // Throws, or warns with replace_invalid. `what`: the first invalid byte and its place.
  void refuse_invalid(const std::string& what);
  void check_surrogate(const RawDocument& raw, std::string_view from_surrogate);

  std::vector<std::string> paths_;
  Separator separator_;
  bool replace_invalid_;
  std::string text_key_;
  bool warned_ = false;
  std::size_t next_path_ = 0;
  std::optional<RawDocuments> file_;     // the open file
  std::optional<ParquetTexts> parquet_;  // the open file, if it is Parquet
  std::int64_t read_before_ = 0;         // bytes of the preceding files
  std::atomic<std::int64_t> bytes_read_ = 0;
};

// The validation documents, for make_shards and TextCorpus.
inline constexpr double default_val_fraction = 0.05;

// Returns whether document `index`, from 0, is for validation: the first val_documents are or, if
// that is 0, an evenly spread fraction val_fraction: the documents at which ⌊val_fraction ·
// documents⌋ increases.
bool is_validation_document(std::int64_t index, std::int64_t val_documents = 0,
                            double val_fraction = default_val_fraction);

}  // namespace tg
