#pragma once
// The aligned order over shards of documents, and the rows that it must read.
#include <algorithm>
#include <memory>
#include <vector>

#include "data/aligned_order.h"
#include "tests/data/corpus.h"
#include "tests/data/document_shards.h"

namespace tg::test {

// An order with rows of `length` tokens, eight per step.
struct Alignment {
  std::int64_t length, limit = 0, bos_id = kBos, most_pieces = 0;
  int rank = 0, world = 1;
  bool quirks = false;  // rounds of as many rows as ranks, as in the reference implementation
};

inline std::unique_ptr<AlignedOrder> aligned_order(const TokenSource& source,
                                                   const Alignment& alignment) {
  const DocumentRows rows{
      .tokens = alignment.length, .of_step = 8, .of_round = alignment.quirks ? alignment.world : 8};
  const AlignedOrder::Pieces pieces{
      .bos_id = alignment.bos_id,
      .limit = alignment.limit,
      .most = [most = alignment.most_pieces](std::int64_t) { return most; }};
  return std::make_unique<AlignedOrder>(source, rows, pieces, alignment.rank, alignment.world);
}

using AlignedRanks = std::vector<std::unique_ptr<AlignedOrder>>;

inline AlignedRanks aligned_ranks(const TokenSource& source, Alignment alignment, int world) {
  AlignedRanks ranks;
  alignment.world = world;
  for (alignment.rank = 0; alignment.rank < world; ++alignment.rank)
    ranks.push_back(aligned_order(source, alignment));
  return ranks;
}

// Returns the rows that the ranks read in a step, by row number.
inline std::vector<Tokens> step_of(AlignedRanks& ranks) {
  std::vector<Tokens> rows;
  for (std::size_t dealt = 0; dealt < 8; dealt += ranks.size()) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      auto row = next_of(*ranks[rank]);
      EXPECT_EQ(row.empty(), dealt + rank >= 8);
      if (!row.empty()) rows.push_back(std::move(row));
    }
  }
  return rows;
}

// Returns where the documents of a shard begin, and the shard's end.
inline std::vector<std::size_t> bounds_of(const Tokens& shard) {
  std::vector<std::size_t> bounds;
  for (std::size_t i = 0; i < shard.size(); ++i)
    if (shard[i] == kBos) bounds.push_back(i);
  bounds.push_back(shard.size());
  return bounds;
}

// Returns the rows of all ranks in order, in rounds of `of_round` rows of one shard.
inline std::vector<Tokens> expected_rows(const std::vector<Tokens>& shards,
                                         const Alignment& alignment, std::size_t of_round,
                                         std::size_t count) {
  const auto span = static_cast<std::size_t>(alignment.length + 1);
  const auto limit = alignment.limit > 0 ? static_cast<std::size_t>(alignment.limit) : span;
  std::vector<Tokens> rows;
  for (std::size_t shard = 0; rows.size() < count; shard = (shard + 1) % shards.size()) {
    const Tokens& tokens = shards[shard];
    const auto bounds = bounds_of(tokens);
    std::vector<Tokens> round;
    Tokens row;
    for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
      const auto size = std::min({bounds[i + 1] - bounds[i], limit, span - row.size()});
      const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(bounds[i]);
      row.insert(row.end(), begin, begin + static_cast<std::ptrdiff_t>(size));
      if (row.size() < span) continue;
      round.push_back(std::exchange(row, {}));
      if (round.size() < of_round) continue;
      rows.insert(rows.end(), round.begin(), round.end());
      round.clear();
    }
  }
  rows.resize(count);
  return rows;
}

}  // namespace tg::test
