#include "data/document_rows.h"

#include <algorithm>
#include <cassert>

#include "base/error.h"

namespace tg {

RowsOrder::RowsOrder(const TokenSource& source, const DocumentRows& rows, std::int64_t bos_id,
                     int rank, int world_size)
    : TokenOrder(source),
      rows_(rows),
      bos_id_(bos_id),
      span_(rows.tokens + 1),
      rank_(rank),
      world_size_(world_size) {
  assert(rows.tokens > 0 && rows.of_step > 0 && rank >= 0 && rank < world_size);
  assert(rows.of_round >= rows.of_step || rows.of_round == world_size);
}

std::optional<Place> RowsOrder::advance() {
  find_round();
  const auto rows = std::min(world_size_, rows_.of_step - dealt_);
  std::optional<Place> place;
  if (rank_ < rows) place = take_row(rank_);
  position_ = skip_rows(rows);
  dealt_ = (dealt_ + rows) % rows_.of_step;
  return place;
}

void RowsOrder::restore(const LoaderState& state) {
  const bool possible = state.token_offset >= 0 && state.micro_batches >= 0 &&
                        state.micro_batches < rows_.of_step &&
                        state.micro_batches % world_size_ == 0;
  REQUIRE(possible, ExitCode::config,
          "loader state token_offset={} micro_batches={} does not fit {} rows on {} ranks; resume "
          "between steps or with the settings of the first run",
          state.token_offset, state.micro_batches, rows_.of_step, world_size_);
  go_to(state.token_offset);
  position_ = state.token_offset;
  dealt_ = state.micro_batches;
}

void RowsOrder::reshape(const BatchShape& shape) {
  assert(dealt_ == 0 && shape.tokens > 0 && shape.tokens <= rows_.tokens);
  span_ = shape.tokens + 1;
}

void RowsOrder::fail_without_documents() const {
  fail(ExitCode::bad_data,
       "{}: no document begins (expected the token BOS_ID={} at each one's beginning, found it "
       "nowhere); set BOS_ID to the token that begins them, or LOADER_ORDER=stream",
       source_.pattern(), bos_id_);
}

}  // namespace tg
