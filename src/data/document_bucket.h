#pragma once
// Documents with their keys, on the way through a DocumentShuffle.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "files/file.h"

namespace tg {

// A document, or a part of one.
struct DocumentPart {
  std::uint64_t key = 0;  // of the document
  std::span<const std::uint16_t> tokens;
};

using VisitPart = std::function<void(const DocumentPart&)>;

// Parts in the order of append(). What does not fit in a buffer is in a temporary file.
class DocumentBucket {
 public:
  DocumentBucket(std::string dir, std::int64_t buffer_bytes);

  // Errors of all three: cannot_create, io (disk full).
  void append(const DocumentPart& part);
  // Reads a buffer of parts at a time. The tokens are valid during the visit.
  void for_each(const VisitPart& visit) const;
  // All parts as they are stored, for for_each_stored().
  std::vector<std::uint16_t> read() const;

  std::int64_t bytes() const;  // as stored
  std::int64_t documents() const { return documents_; }

 private:
  std::string dir_;
  std::int64_t buffer_words_;
  std::vector<std::uint16_t> buffer_;
  std::optional<File> file_;
  std::int64_t file_words_ = 0;
  std::int64_t documents_ = 0;
  std::uint64_t last_key_ = 0;
};

// Visits the complete parts at the beginning of `stored` → the words that they take.
std::size_t for_each_stored(std::span<const std::uint16_t> stored, const VisitPart& visit);

}  // namespace tg
