#include "data/document_overlap.h"

#include <algorithm>

#include "base/log.h"

namespace tg {
namespace {

void sort_unique(std::vector<std::uint64_t>& hashes) {
  std::ranges::sort(hashes);
  hashes.erase(std::unique(hashes.begin(), hashes.end()), hashes.end());
}

}  // namespace

void DocumentOverlap::append(bool validation, std::span<const TokenId> tokens,
                             bool begins_document) {
  if (begins_document || !document_) {
    end_document();
    document_.emplace();
    validation_ = validation;
  }
  document_->add(tokens.data(), tokens.size_bytes());
}

void DocumentOverlap::append_stream(bool validation, std::span<const TokenId> tokens,
                                    TokenId bos_id) {
  for (auto begin = tokens.begin(); begin != tokens.end();) {
    const bool begins_document = *begin == bos_id || !document_ || validation != validation_;
    const auto end = std::find(begin + 1, tokens.end(), bos_id);
    append(validation, {begin, end}, begins_document);
    begin = end;
  }
}

void DocumentOverlap::end_document() {
  if (!document_) return;
  const auto hash = document_->value();
  document_.reset();
  if (hash > limit_) return;
  auto& hashes = validation_ ? val_ : train_;
  hashes.push_back(hash);
  if (hashes.size() >= 2 * max_documents_) keep_smallest(hashes);
}

void DocumentOverlap::keep_smallest(Hashes& hashes) {
  sort_unique(hashes);
  if (hashes.size() <= max_documents_) return;
  limit_ = hashes[max_documents_ - 1];
  for (auto* split : {&train_, &val_})
    std::erase_if(*split, [this](std::uint64_t hash) { return hash > limit_; });
}

DocumentOverlap::Found DocumentOverlap::finish() {
  end_document();
  sort_unique(train_);
  sort_unique(val_);
  Found found{.compared = std::ssize(val_),
              .all = limit_ == std::numeric_limits<std::uint64_t>::max()};
  for (const auto hash : val_) found.shared += std::ranges::binary_search(train_, hash);
  return found;
}

void warn_of_overlap(const DocumentOverlap::Found& found) {
  if (found.shared == 0) return;
  log_warn(
      "{} of {} different validation documents{} are in the training split too, token by token "
      "(expected none), so that val_loss and val_bpb are lower than on new text; remove the "
      "copies from the text",
      found.shared, found.compared, found.all ? "" : " (a sample by their hashes)");
}

}  // namespace tg
