#pragma once
// Documents with sort keys, in a DocumentShuffle.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "files/file.h"

namespace tg {

// Document, or part of a document.
struct DocumentPart {
  std::uint64_t key = 0;              // sort key of the whole document
  std::span<const std::byte> tokens;  // in stored form
};

using PartVisitor = std::function<void(const DocumentPart&)>;

// Sequence of parts in the order of append(). Overflows from a buffer to a temporary file.
class DocumentBucket {
 public:
  DocumentBucket(std::string dir, std::int64_t buffer_bytes);

  // append(), for_each() and read() throw Error(cannot_create) and Error(io) (disk full).
  void append(const DocumentPart& part);
  // Reads one buffer of parts at a time. The tokens are valid during the call of `visit`.
  void for_each(const PartVisitor& visit) const;
  // Returns all parts in stored form, for for_each_stored().
  std::vector<std::byte> read() const;

  std::int64_t bytes() const;  // in stored form
  std::int64_t documents() const { return documents_; }

 private:
  std::string dir_;
  std::int64_t buffer_bytes_;
  std::vector<std::byte> buffer_;
  std::optional<File> file_;
  std::int64_t file_bytes_ = 0;
  std::int64_t documents_ = 0;
  std::uint64_t last_key_ = 0;
};

// Visits the complete parts at the beginning of `stored`; returns their size.
std::size_t for_each_stored(std::span<const std::byte> stored, const PartVisitor& visit);

}  // namespace tg
