#include "text/merge_history.h"

#include <algorithm>

namespace tg {
namespace {

constexpr auto kNever = std::numeric_limits<std::uint32_t>::max();

// The token's pieces, and the ranks of merging each with the next one.
class Pieces {
 public:
  Pieces(std::string_view token, const PieceRanks& ranks) : token_(token), ranks_(ranks) {
    for (std::size_t i = 0; i <= token.size(); ++i) starts_.push_back(i);
    for (std::size_t i = 0; i + 1 < token.size(); ++i) merge_ranks_.push_back(merge_rank(i));
  }

  std::size_t count() const { return starts_.size() - 1; }
  std::string_view operator[](std::size_t i) const { return span(i, 1); }
  // Returns the left piece of the next merge; count(): there is none.
  std::size_t next() const {
    const auto lowest = std::ranges::min_element(merge_ranks_);
    if (lowest == merge_ranks_.end() || *lowest == kNever) return count();
    return static_cast<std::size_t>(lowest - merge_ranks_.begin());
  }
  // Merges the pieces i and i + 1; returns the merge's rank.
  std::uint32_t merge(std::size_t i) {
    const auto at = static_cast<std::ptrdiff_t>(i);
    const auto rank = merge_ranks_[i];
    starts_.erase(starts_.begin() + at + 1);
    merge_ranks_.erase(merge_ranks_.begin() + at);
    if (i > 0) merge_ranks_[i - 1] = merge_rank(i - 1);
    if (i < merge_ranks_.size()) merge_ranks_[i] = merge_rank(i);
    return rank;
  }

 private:
  std::string_view span(std::size_t i, std::size_t pieces) const {
    return token_.substr(starts_[i], starts_[i + pieces] - starts_[i]);
  }
  std::uint32_t merge_rank(std::size_t i) const {
    const auto found = ranks_.find(span(i, 2));
    return found == ranks_.end() ? kNever : found->second;
  }

  std::string_view token_;
  const PieceRanks& ranks_;
  std::vector<std::size_t> starts_;  // of the pieces, then the token's size
  std::vector<std::uint32_t> merge_ranks_;
};

void replace_from(std::vector<EdgePiece>& edge, std::uint32_t rank, std::string_view bytes) {
  edge.back().end = rank;
  edge.push_back({.bytes = bytes, .begin = rank});
}

}  // namespace

MergeHistory merge_history(std::string_view token, const PieceRanks& ranks) {
  Pieces pieces(token, ranks);
  MergeHistory history{.first = {{.bytes = pieces[0]}},
                       .last = {{.bytes = pieces[pieces.count() - 1]}},
                       .left = {},
                       .right = {}};
  for (auto i = pieces.next(); i < pieces.count(); i = pieces.next()) {
    history.left = pieces[i];
    history.right = pieces[i + 1];
    const auto rank = pieces.merge(i);
    if (i == 0) replace_from(history.first, rank + 1, pieces[i]);
    if (i + 1 == pieces.count()) replace_from(history.last, rank, pieces[i]);
  }
  return history;
}

}  // namespace tg
