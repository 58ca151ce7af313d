#pragma once
// Shuffles documents, even more than memory holds, by a distribution sort with random keys. Each
// document gets a key and is appended, by the key's leading bits, to a bucket on disk; a bucket
// that fits in memory is sorted there, a larger one is distributed again by the next bits.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
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
  DocumentBucket(std::string dir, std::int64_t buffer_bytes)
      : dir_(std::move(dir)), buffer_bytes_(buffer_bytes) {}

  // append(), for_each() and read() throw Error(cannot_create) and Error(io) (disk full).
  void append(const DocumentPart& part);
  // Reads one buffer of parts at a time. The tokens are valid during the call of `visit`.
  void for_each(const PartVisitor& visit) const;
  // Returns all parts in stored form.
  std::vector<std::byte> read() const;

  std::int64_t bytes() const { return file_bytes_ + std::ssize(buffer_); }  // in stored form
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

struct ShuffleLimits {
  std::int64_t sorted_bytes = 256 << 20;  // limit for a bucket sorted in memory
  std::int64_t buffer_bytes = 1 << 20;    // per bucket; 64 buckets are written concurrently
};

// Document i has the key splitmix64(key, i), and the output is sorted by key: it depends neither on
// the limits nor on how documents are split into parts.
class DocumentShuffle {
 public:
  // Buckets are temporary files in `dir`; what fits in their buffers needs no file.
  DocumentShuffle(std::string dir, std::uint64_t key, ShuffleLimits limits = {});

  // Adds a document's stored tokens or the next part of them; the parts of a document are
  // consecutive. append() and take() throw Error(cannot_create) and Error(io) (disk full).
  void append(std::span<const std::byte> tokens, bool begins_document);
  // Passes all documents to `write` in shuffled order, part by part, and removes them.
  using Write = std::function<void(std::span<const std::byte>)>;
  void take(const Write& write);

 private:
  using Buckets = std::vector<DocumentBucket>;

  Buckets make_buckets() const;
  // Selects the bucket by the highest of the key's last `bits` bits.
  static void deal(const DocumentPart& part, int bits, Buckets& buckets);
  Buckets deal_again(DocumentBucket bucket, int bits) const;
  // In each bucket the keys differ only in their last `bits` bits.
  void take(Buckets buckets, int bits, const Write& write) const;

  std::string dir_;
  std::uint64_t key_;
  ShuffleLimits limits_;
  std::uint64_t documents_ = 0;
  std::uint64_t document_key_ = 0;  // key of the current document
  Buckets buckets_;
};

}  // namespace tg
