#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "data/document_rows.h"
#include "data/document_scan.h"

namespace tg {

// Order with rows aligned to documents. A row is filled with the beginnings of consecutive
// documents: what the limit or the end of the row cuts off a document is skipped, so that each row
// and each of its pieces begins at a BOS. Places have one span per piece.
class AlignedOrder final : public RowsOrder {
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

  void reshape(const BatchShape& shape) override;

 private:
  struct Row {
    Place place;
    std::int64_t end = 0;  // stream position of the next document
  };

  // Warns once about each shard that it skips. Waits only if the documents of a round are not found
  // yet. Throws also Error(bad_data) for a row of more pieces than `most`.
  void find_round() override;
  Place take_row(std::int64_t index) override { return std::move(row(index).place); }
  std::int64_t skip_rows(std::int64_t rows) override;
  void go_to(std::int64_t position) override;

  bool fill_round(std::int64_t rows);
  void refuse_many_pieces(const Row& row) const;
  const DocumentPlace& document();
  Row& row(std::int64_t index) { return round_[taken_ + static_cast<std::size_t>(index)]; }

  Pieces pieces_;
  std::unique_ptr<DocumentScan> scan_;
  std::optional<DocumentPlace> document_;  // the next document, once document() was called
  std::vector<Row> round_;                 // the current round; after restore() its remainder
  std::size_t taken_ = 0;                  // rows of the round already dealt
};

}  // namespace tg
