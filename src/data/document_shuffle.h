#pragma once
// Documents in a random order, also of more text than memory holds: a distribution sort by random
// keys. Each document gets a key and is dealt, by the key's leading bits, to a bucket on disk; a
// bucket that fits in memory is sorted there, a larger one is dealt again by the next bits.
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "data/document_bucket.h"

namespace tg {

// Document i has the key splitmix64(key, i), and the order is that of the keys: it depends neither
// on the limits nor on how documents are cut into parts.
class DocumentShuffle {
 public:
  struct Limits {
    std::int64_t sorted_bytes = 256 << 20;  // of a bucket, unless it is one document
    std::int64_t buffer_bytes = 1 << 20;    // of each of 64 buckets, which are written together
  };

  // Buckets are temporary files in `dir`; what fits in their buffers makes none.
  DocumentShuffle(std::string dir, std::uint64_t key);
  DocumentShuffle(std::string dir, std::uint64_t key, Limits limits);

  // A document, or a part of one; its parts follow each other.
  // Errors of both: cannot_create, io (disk full).
  void append(std::span<const std::uint16_t> tokens, bool begins_document);
  // Passes all documents to `write` in their new order, part by part, and forgets them.
  using Write = std::function<void(std::span<const std::uint16_t>)>;
  void take(const Write& write);

 private:
  using Buckets = std::vector<DocumentBucket>;

  Buckets make_buckets() const;
  // The upper bits of a key's last `bits` say the bucket.
  static void deal(const DocumentPart& part, int bits, Buckets& buckets);
  Buckets deal_again(DocumentBucket bucket, int bits) const;
  // In each bucket the keys differ in their last `bits` bits only.
  void take(Buckets buckets, int bits, const Write& write) const;

  std::string dir_;
  std::uint64_t key_;
  Limits limits_;
  std::uint64_t documents_ = 0;
  std::uint64_t document_key_ = 0;  // of the last one
  Buckets buckets_;
};

}  // namespace tg
