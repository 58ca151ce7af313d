#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "files/xxh3.h"

namespace tg {

// Finds the documents of the validation split that are in the training split as well, by hashes of
// their tokens. Memory does not grow with the text: of more than `most` different documents in a
// split only those below a limit of the hash are compared, the same ones in both splits.
class DocumentOverlap {
 public:
  explicit DocumentOverlap(std::size_t most = 1 << 20) : most_(most) {}

  // A document of the split, or a part of one; its parts follow each other.
  void append(bool validation, std::span<const std::uint16_t> tokens, bool begins_document);
  // Tokens of the split, in which `bos_id` begins a document.
  void append_stream(bool validation, std::span<const std::uint16_t> tokens, int bos_id);

  struct Found {
    std::int64_t compared = 0;  // different validation documents
    std::int64_t shared = 0;    // of these in the training split
    bool all = true;            // none was left out
  };
  Found finish();

 private:
  using Hashes = std::vector<std::uint64_t>;

  void end_document();
  void keep_most(Hashes& hashes);

  const std::size_t most_;
  std::optional<Xxh3> document_;  // its tokens so far
  bool validation_ = false;       // of the document
  Hashes train_, val_;
  std::uint64_t limit_ = std::numeric_limits<std::uint64_t>::max();  // of hashes that are kept
};

// One warning, if there are any.
void warn_of_overlap(const DocumentOverlap::Found& found);

}  // namespace tg
