#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "data/document_rows.h"
#include "data/document_scan.h"
#include "data/token_order.h"

namespace tg {

// Order with rows aligned to documents. A step is M rows of L + 1 tokens, each a micro-batch; rank
// j mod W reads row j. A row is filled with the beginnings of consecutive documents: what the limit
// or the end of the row cuts off a document is skipped, so that each row and each of its
// pieces begins at a BOS. Rows are dealt in rounds: if a shard ends before a round is complete, the
// round is dropped and the next shard begins. With rounds of M rows nothing depends on the number
// of ranks; the reference implementation has rounds of W rows. Places have one span per piece.
class AlignedOrder final : public TokenOrder {
 public:
  // Returns how many pieces a row of so many tokens may have; 0: any.
  using MostPieces = std::function<std::int64_t(std::int64_t row_tokens)>;
  struct Pieces {
    std::int64_t bos_id;
    std::int64_t limit;    // tokens per piece, the fewest of the run; 0: unlimited
    MostPieces most = {};  // empty: any
  };

  // Waits, for a text source, for one round. Throws Error(bad_data) if no shard has a round, and
  // what reading throws.
  AlignedOrder(const TokenSource& source, const DocumentRows& rows, const Pieces& pieces, int rank,
               int world_size);

  // Warns once about each shard that it skips. Waits only if the documents of a round are not found
  // yet. Throws also Error(bad_data) for a row of more pieces than `most`.
  std::optional<Place> advance() override;
  LoaderState state() const override {
    return {.token_offset = position_, .micro_batches = dealt_};
  }
  void restore(const LoaderState& state) override;
  std::int64_t span_tokens() const override { return rows_.tokens + 1; }
  void reshape(const BatchShape& shape) override;

 private:
  struct Row {
    Place place;
    std::int64_t end = 0;  // stream position of the next document
  };

  void require_a_round();
  void begin_round();
  bool fill_round(std::int64_t rows);
  void refuse_many_pieces(const Row& row) const;
  void warn_once(int shard, std::int64_t rows);
  const DocumentPlace& document();
  void go_to(std::int64_t position);

  const DocumentRows rows_;
  Pieces pieces_;
  const std::int64_t rank_, world_size_;
  std::int64_t span_;         // tokens of a row: L + 1
  std::vector<bool> warned_;  // by shard
  std::unique_ptr<DocumentScan> scan_;
  std::optional<DocumentPlace> document_;  // the next document, once document() was called
  std::vector<Row> round_;                 // the current round; after restore() its remainder
  std::size_t taken_ = 0;                  // rows of the round already dealt
  std::int64_t position_ = 0;              // stream position at the end of the last dealt row
  std::int64_t dealt_ = 0;                 // rows of the step that were dealt in past rounds
};

}  // namespace tg
