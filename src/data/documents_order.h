#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "data/document_rows.h"
#include "data/stream_position.h"
#include "data/token_order.h"

namespace tg {

// Order of rows that are not aligned to documents. A step is M rows of L + 1 tokens, each a
// micro-batch; rank j mod W reads row j. Rows are dealt in rounds of consecutive rows of a shard: a
// shard is read from its first BOS on, and if fewer tokens than a round remain, they are dropped
// and the next shard begins. With rounds of M rows nothing depends on the number of ranks; the
// reference implementation has rounds of W rows.
class DocumentsOrder final : public TokenOrder {
 public:
  // Waits, for a text source, for one round. Throws Error(bad_data) if no shard has a round, and
  // what reading throws.
  DocumentsOrder(const TokenSource& source, const DocumentRows& rows, std::int64_t bos_id, int rank,
                 int world_size);

  // Warns once about each shard that it skips. May wait, for a text source, for the tokens of a
  // round.
  std::optional<Place> advance() override;
  LoaderState state() const override {
    return {.token_offset = pass_begin_ + source_.start(shard_) + begin_, .micro_batches = dealt_};
  }
  void restore(const LoaderState& state) override;
  std::int64_t span_tokens() const override { return rows_.tokens + 1; }
  void reshape(const BatchShape& shape) override;

 private:
  struct Shard {
    std::optional<std::int64_t> first_document;  // its position, once it was searched
    bool warned = false;
  };

  void require_a_round();
  void begin_round(std::int64_t tokens);
  void warn_once(int shard, std::int64_t tokens);
  bool has(int shard, std::int64_t tokens) const {
    return tokens_up_to(source_, shard, tokens) >= tokens;
  }
  // Returns the position of the shard's first BOS; the shard's end if it has none.
  std::int64_t first_document(int shard);
  std::int64_t find_document(int shard) const;

  const DocumentRows rows_;
  const std::int64_t bos_id_, rank_, world_size_;
  std::int64_t span_;            // tokens of a row: L + 1
  std::vector<Shard> shards_;    // what is known of each shard
  std::int64_t pass_begin_ = 0;  // stream position
  int shard_ = 0;
  std::int64_t begin_ = 0;  // position of the next row in the shard
  std::int64_t dealt_ = 0;  // rows of the step that were dealt in past rounds
};

}  // namespace tg
