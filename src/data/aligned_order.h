#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "data/document_rows.h"
#include "data/document_scan.h"
#include "data/token_order.h"

namespace tg {

// A step is M rows of L + 1 tokens, each a micro-batch; rank j mod W reads row j. A row is filled
// with the beginnings of the documents that follow each other: what the limit or the row's end cuts
// off of one is skipped, so that every row and every piece of it begins at a BOS. Rows are dealt in
// rounds: where a shard ends before a round is complete, the round is dropped and the next shard
// begins. With rounds of M rows nothing depends on the number of ranks; the reference
// implementation has rounds of W. Places have a span a piece.
class AlignedOrder final : public TokenOrder {
 public:
  struct Pieces {
    std::int64_t bos_id;
    std::int64_t limit;     // tokens; 0: any number
    std::int64_t most = 0;  // of a row; 0: any number
  };

  // Waits, in text, for one round. Errors: bad_data (no shard has a round); what reading throws.
  AlignedOrder(const TokenSource& source, const DocumentRows& rows, const Pieces& pieces, int rank,
               int world_size);

  // Warns of a shard that it passes over, the first time. Waits only where the documents of a round
  // are not found yet. Errors: also bad_data (a row of more pieces than `most`).
  std::optional<Place> advance() override;
  LoaderState state() const override {
    return {.token_offset = position_, .micro_batches = dealt_};
  }
  void restore(const LoaderState& state) override;
  std::int64_t span_tokens() const override { return rows_.tokens + 1; }
  void resize(std::int64_t micro_batch_tokens) override;

 private:
  struct Row {
    Place place;
    std::int64_t end = 0;  // where the document behind it begins, in the stream
  };

  void require_a_round();
  void begin_round();
  bool fill_round(std::int64_t rows);
  void refuse_many_pieces(const Row& row) const;
  void warn_once(int shard, std::int64_t rows);
  const Document& document();
  void go_to(std::int64_t position);

  const DocumentRows rows_;
  const Pieces pieces_;
  const std::int64_t rank_, world_size_;
  std::int64_t span_;         // L + 1
  std::vector<bool> warned_;  // of a shard
  std::unique_ptr<DocumentScan> scan_;
  std::optional<Document> document_;  // the next one, once it was asked for
  std::vector<Row> round_;            // the current one, or what is left of it after restore()
  std::size_t taken_ = 0;             // of its rows
  std::int64_t position_ = 0;         // in the stream: the end of the last row that was dealt
  std::int64_t dealt_ = 0;            // rows of the step that ranks took in past rounds
};

}  // namespace tg
