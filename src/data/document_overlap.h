#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "files/xxh3.h"
#include "text/token_id.h"

namespace tg {

// Finds validation documents that also occur in the training split, by hashes of their tokens.
// Memory is bounded: if a split has more than `max_documents` distinct documents, only those with
// hashes below a common limit are compared in both splits.
class DocumentOverlap {
 public:
  explicit DocumentOverlap(std::size_t max_documents = 1 << 20) : max_documents_(max_documents) {}

  // Adds a document or the next part of one; the parts of a document are consecutive.
  void append(bool validation, std::span<const TokenId> tokens, bool begins_document);
  // Adds tokens of the split, in which `bos_id` begins a document.
  void append_stream(bool validation, std::span<const TokenId> tokens, TokenId bos_id);

  struct Found {
    std::int64_t compared = 0;  // distinct validation documents
    std::int64_t shared = 0;    // compared ones that are also in the training split
    bool all = true;            // compared all documents
  };
  Found finish();

 private:
  using Hashes = std::vector<std::uint64_t>;

  void end_document();
  void keep_smallest(Hashes& hashes);

  const std::size_t max_documents_;
  std::optional<Xxh3> document_;  // hash of the current document's tokens so far
  bool validation_ = false;       // split of the current document
  Hashes train_, val_;
  std::uint64_t limit_ = std::numeric_limits<std::uint64_t>::max();  // largest hash kept
};

// Warns once if there is an overlap.
void warn_of_overlap(const DocumentOverlap::Found& found);

}  // namespace tg
