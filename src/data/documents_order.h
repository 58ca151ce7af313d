#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "data/document_rows.h"
#include "data/stream_position.h"
#include "data/token_order.h"

namespace tg {

// A step is M rows of L + 1 tokens, each a micro-batch; rank j mod W reads row j. They are dealt in
// rounds of rows that follow each other in a shard: a shard is read from its first BOS on, and
// where fewer tokens than a round remain, they are dropped and the next shard begins. Rows are not
// aligned to documents. With rounds of M rows nothing depends on the number of ranks; the reference
// implementation has rounds of W.
class DocumentsOrder final : public TokenOrder {
 public:
  // Errors: bad_data (no shard has a round); those of reading. Of text it waits for one round.
  DocumentsOrder(const TokenSource& source, const DocumentRows& rows, std::int64_t bos_id, int rank,
                 int world_size);

  // Warns of a shard that it passes over, the first time. Of text it may wait for a round's tokens.
  std::optional<Place> advance() override;
  LoaderState state() const override {
    return {.token_offset = pass_begin_ + source_.start(shard_) + begin_, .micro_batches = dealt_};
  }
  void restore(const LoaderState& state) override;
  std::int64_t span_tokens() const override { return rows_.tokens + 1; }
  void resize(std::int64_t micro_batch_tokens) override;

 private:
  struct Shard {
    std::optional<std::int64_t> first_document;  // its position, once it was looked for
    bool warned = false;
  };

  void require_a_round();
  void begin_round(std::int64_t tokens);
  void warn_once(int shard, std::int64_t tokens);
  bool has(int shard, std::int64_t tokens) const {
    return tokens_up_to(source_, shard, tokens) >= tokens;
  }
  // The position of its first BOS; its end, if it has none.
  std::int64_t first_document(int shard);
  std::int64_t find_document(int shard) const;

  const DocumentRows rows_;
  const std::int64_t bos_id_, rank_, world_size_;
  std::int64_t span_;            // L + 1
  std::vector<Shard> shards_;    // what is known of each
  std::int64_t pass_begin_ = 0;  // in the stream
  int shard_ = 0;
  std::int64_t begin_ = 0;  // of the next row, in the shard
  std::int64_t dealt_ = 0;  // rows of the step that ranks took in past rounds
};

}  // namespace tg
