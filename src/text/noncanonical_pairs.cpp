#include "text/noncanonical_pairs.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>
#include <unordered_map>

#include "text/word_boundary.h"

namespace tg {
namespace {

// Ranks of the pieces that merges make, by their bytes; merges of lower rank come first.
using PieceRanks = std::unordered_map<std::string_view, std::uint32_t>;

// A piece at one edge of the token, when the merges of a rank within [begin, end) are made.
struct EdgePiece {
  std::string_view bytes;  // of the token
  std::uint32_t begin = 0, end = std::numeric_limits<std::uint32_t>::max();
};

struct MergeHistory {
  std::vector<EdgePiece> first, last;  // at the token's first and at its last byte
  std::string_view left, right;        // operands of the last merge; empty: there was none
};

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

// Merges neighbouring pieces, at first single bytes, whose concatenation has a rank: the lowest
// first, of equal ones the leftmost. Another token on the right sees a merge's result as `last`
// when merges of the same rank are made, one on the left sees it as `first` from the next rank on,
// since of overlapping merges of equal rank the leftmost is made. `token`: at least one byte; the
// history refers to it.
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

// Tokens by the class of their character at the seam.
using TokensByClass = std::array<std::vector<TokenId>, kCharacterClasses>;

std::vector<TokenId>& of_class(TokensByClass& tokens, CharacterClass at_seam) {
  return tokens[static_cast<std::size_t>(at_seam)];
}

// Tokens by the piece at one of their edges.
class TokensByEdge {
 public:
  void add(const std::vector<EdgePiece>& edge, TokenId id, CharacterClass at_seam) {
    for (const auto& piece : edge) {
      if (piece.begin < piece.end)
        entries_[piece.bytes].push_back({piece.begin, piece.end, id, at_seam});
    }
  }
  // Returns the tokens whose edge is `piece` when merges of this rank are made.
  TokensByClass find(std::string_view piece, std::uint32_t rank) const {
    TokensByClass tokens;
    const auto found = entries_.find(piece);
    if (found == entries_.end()) return tokens;
    for (const auto& entry : found->second) {
      if (entry.begin <= rank && rank < entry.end)
        of_class(tokens, entry.at_seam).push_back(entry.id);
    }
    return tokens;
  }

 private:
  struct Entry {
    std::uint32_t begin, end;
    TokenId id;
    CharacterClass at_seam;
  };
  std::unordered_map<std::string_view, std::vector<Entry>> entries_;
};

// The last merge of a piece.
struct Rule {
  std::uint32_t rank;
  std::string_view left, right;
};

}  // namespace

std::vector<std::uint8_t> noncanonical_pairs(std::span<const RankedPiece> pieces,
                                             std::int64_t vocab_size) {
  PieceRanks ranks;
  for (const auto& piece : pieces) ranks.emplace(piece.bytes, piece.rank);
  TokensByEdge ending, beginning;
  std::vector<Rule> rules;
  for (const auto& piece : pieces) {
    const auto history = merge_history(piece.bytes, ranks);
    if (!history.left.empty()) rules.push_back({piece.rank, history.left, history.right});
    beginning.add(history.first, piece.id, class_of_start(piece.bytes));
    if (!ends_in_contraction(piece.bytes))
      ending.add(history.last, piece.id, class_of_end(piece.bytes));
  }

  const auto row_bytes = static_cast<std::size_t>((vocab_size + 7) / 8);
  std::vector<std::uint8_t> table(static_cast<std::size_t>(vocab_size) * row_bytes);
  const auto mark = [&](const std::vector<TokenId>& previous, const std::vector<TokenId>& next) {
    for (const auto p : previous) {
      auto* const row = table.data() + p * row_bytes;
      for (const auto c : next) row[c / 8] |= static_cast<std::uint8_t>(1U << c % 8);
    }
  };
  for (const auto& rule : rules) {
    const auto previous = ending.find(rule.left, rule.rank);
    const auto next = beginning.find(rule.right, rule.rank);
    for (std::size_t end = 0; end < previous.size(); ++end) {
      for (std::size_t start = 0; start < next.size(); ++start) {
        if (!may_end_word(static_cast<CharacterClass>(end), static_cast<CharacterClass>(start)))
          mark(previous[end], next[start]);
      }
    }
  }
  return table;
}

}  // namespace tg
