#include "text/noncanonical_pairs.h"

#include <array>
#include <string_view>
#include <unordered_map>

#include "text/merge_history.h"
#include "text/word_boundary.h"

namespace tg {
namespace {

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
