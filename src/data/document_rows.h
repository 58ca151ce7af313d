#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>

#include "data/token_order.h"

namespace tg {

// A step is M rows of L + 1 tokens, each a micro-batch, dealt in rounds of rows of one shard.
struct DocumentRows {
  std::int64_t tokens;    // L, the maximum
  std::int64_t of_step;   // M, rows per step
  std::int64_t of_round;  // rows per round: M or W; a step's last round may be shorter
};

// Base of the documents and aligned orders: rank j mod W reads row j of a step. If a shard ends
// before a round is complete, the next shard begins. With rounds of M rows nothing depends on the
// number of ranks; the reference implementation has rounds of W rows.
class RowsOrder : public TokenOrder {
 public:
  std::optional<Place> advance() final;
  LoaderState state() const final { return {.token_offset = position_, .micro_batches = dealt_}; }
  void restore(const LoaderState& state) final;
  std::int64_t span_tokens() const final { return rows_.tokens + 1; }
  void reshape(const BatchShape& shape) override;

 protected:
  RowsOrder(const TokenSource& source, const DocumentRows& rows, std::int64_t bos_id, int rank,
            int world_size);

  // Finds the next round, unless rows of the current one are left.
  virtual void find_round() = 0;
  // Takes the row `index` of the round, counted from its first one that is not dealt.
  virtual Place take_row(std::int64_t index) = 0;
  // Skips `rows` rows of the round; returns the stream position at their end.
  virtual std::int64_t skip_rows(std::int64_t rows) = 0;
  // Continues at a stream position, where a round begins or continues.
  virtual void go_to(std::int64_t position) = 0;

  // Returns the rows of the current round that are not yet dealt.
  std::int64_t left_in_round() const {
    return std::min(rows_.of_round - dealt_ % rows_.of_round, rows_.of_step - dealt_);
  }
  // Returns whether no warning named the shard before.
  bool first_warning(int shard) { return warned_.insert(shard).second; }
  // Throws Error(bad_data) for data in which BOS_ID does not occur.
  [[noreturn]] void fail_without_documents() const;

  const DocumentRows rows_;
  const std::int64_t bos_id_;
  std::int64_t span_;          // tokens of a row: L + 1
  std::int64_t position_ = 0;  // stream position at the end of the last dealt row
  std::int64_t dealt_ = 0;     // rows of the step that were dealt in past rounds

 private:
  const std::int64_t rank_, world_size_;
  std::set<int> warned_;  // shards
};

}  // namespace tg
