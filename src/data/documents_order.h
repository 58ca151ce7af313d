#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "data/document_rows.h"

namespace tg {

// Order of rows that are not aligned to documents. A round is consecutive rows of a shard, which is
// read from its first BOS on; the tokens at its end that are fewer than a round are dropped.
class DocumentsOrder final : public RowsOrder {
 public:
  // Waits, for a text source, for one round. Throws Error(bad_data) if no shard has a round, and
  // what reading throws.
  DocumentsOrder(const TokenSource& source, const DocumentRows& rows, std::int64_t bos_id, int rank,
                 int world_size);

 private:
  // Warns once about each shard that it skips. May wait, for a text source, for the tokens of a
  // round.
  void find_round() override;
  Place take_row(std::int64_t index) override {
    return {{{source_.start(next_.shard) + next_.begin + index * span_, span_}}};
  }
  std::int64_t skip_rows(std::int64_t rows) override;
  void go_to(std::int64_t position) override { next_ = position_in(source_, position); }

  bool has(int shard, std::int64_t tokens) const {
    return tokens_up_to(source_, shard, tokens) >= tokens;
  }
  // Returns the position of the shard's first BOS; the shard's end if it has none.
  std::int64_t first_document(int shard);

  std::vector<std::optional<std::int64_t>> first_documents_;  // by shard, once it was searched
  StreamPosition next_;                                       // of the next row
};

}  // namespace tg
