#include "data/aligned_order.h"

#include <algorithm>
#include <cassert>

#include "base/error.h"
#include "base/log.h"
#include "data/stream_position.h"

namespace tg {

AlignedOrder::AlignedOrder(const TokenSource& source, const DocumentRows& rows,
                           const Pieces& pieces, int rank, int world_size)
    : TokenOrder(source),
      rows_(rows),
      pieces_(pieces),
      rank_(rank),
      world_size_(world_size),
      span_(rows.tokens + 1),
      warned_(static_cast<std::size_t>(source.count())) {
  assert(rows.tokens > 0 && rows.of_step > 0 && rank >= 0 && rank < world_size);
  assert(rows.of_round >= rows.of_step || rows.of_round == world_size);
  require_a_round();
}

// Throws if there is no round, since begin_round() would search forever. Shorter rows and longer
// pieces need no more documents.
void AlignedOrder::require_a_round() {
  go_to(0);
  const auto needed = rows_.left_in_round(0);
  std::int64_t most = 0;
  bool any = false;
  do {
    any = any || document().tokens > 0;
    if (fill_round(needed)) return go_to(0);
    most = std::max(most, std::ssize(round_));
  } while (document().shard > 0);
  if (!any) fail_without_documents(source_, pieces_.bos_id);
  fail(ExitCode::bad_data,
       "{}: no shard is long enough for LOADER_ORDER=aligned (expected documents for {} rows of "
       "{} tokens, found at most {}); lower TRAIN_BATCH_TOKENS, raise SEGMENT_LIMIT or merge small "
       "shards",
       source_.pattern(), needed, rows_.tokens, most);
}

std::optional<Place> AlignedOrder::advance() {
  if (taken_ == round_.size()) begin_round();
  const auto rows = std::min(world_size_, rows_.of_step - dealt_);
  std::optional<Place> place;
  if (rank_ < rows) place = std::move(round_[taken_ + static_cast<std::size_t>(rank_)].place);
  taken_ += static_cast<std::size_t>(rows);
  position_ = round_[taken_ - 1].end;
  dealt_ = (dealt_ + rows) % rows_.of_step;
  return place;
}

void AlignedOrder::begin_round() {
  const auto rows = rows_.left_in_round(dealt_);
  try {
    for (;;) {
      const auto [begin, tokens, shard, whole] = document();
      if (fill_round(rows)) break;
      if (whole) warn_once(shard, rows);
    }
    for (const auto& row : round_) refuse_many_pieces(row);
  } catch (...) {
    go_to(position_);
    throw;
  }
}

// Returns false if the shard ends before `rows` rows are full; document() is then the first of the
// next shard.
bool AlignedOrder::fill_round(std::int64_t rows) {
  round_.clear();
  taken_ = 0;
  while (std::ssize(round_) < rows) {
    Row row;
    auto& spans = row.place.spans;
    for (auto left = span_; left > 0;) {
      const auto& found = document();
      if (found.first && !(round_.empty() && spans.empty())) return false;
      const auto whole = pieces_.limit > 0 ? std::min(found.tokens, pieces_.limit) : found.tokens;
      spans.push_back({found.begin, std::min(whole, left)});
      left -= spans.back().tokens;
      row.end = found.begin + found.tokens;
      document_.reset();
    }
    round_.push_back(std::move(row));
  }
  return true;
}

void AlignedOrder::refuse_many_pieces(const Row& row) const {
  const auto& spans = row.place.spans;
  const auto most = pieces_.most ? pieces_.most(span_ - 1) : 0;
  if (most == 0 || std::ssize(spans) <= most) return;
  const auto at = position_in(source_, spans.front().begin);
  fail(ExitCode::bad_data,
       "{}: the row of {} tokens that begins at token {} has {} documents (expected at most {} "
       "with RECORD_QUIRKS=1, the limit of the Python script); set RECORD_QUIRKS=0 or lower "
       "TRAIN_BATCH_TOKENS",
       source_.path(at.shard), span_ - 1, at.begin, std::ssize(spans), most);
}

void AlignedOrder::warn_once(int shard, std::int64_t rows) {
  auto warned = warned_[static_cast<std::size_t>(shard)];
  if (!warned) {
    log_warn_once(
        "{} is passed over: it has documents (BOS_ID={}) for {} rows of {} tokens, fewer than the "
        "{} that LOADER_ORDER=aligned reads at a time",
        source_.path(shard), pieces_.bos_id, std::ssize(round_), span_ - 1, rows);
  }
  warned = true;
}

const DocumentPlace& AlignedOrder::document() {
  if (!document_) document_ = scan_->next();
  return *document_;
}

void AlignedOrder::go_to(std::int64_t position) {
  constexpr int steps_ahead = 4;
  scan_ = std::make_unique<DocumentScan>(source_, pieces_.bos_id, position,
                                         steps_ahead * rows_.of_step * span_tokens());
  document_.reset();
  round_.clear();
  taken_ = 0;
}

void AlignedOrder::restore(const LoaderState& state) {
  rows_.require_possible(state, world_size_);
  position_ = state.token_offset;
  dealt_ = state.micro_batches;
  go_to(position_);
}

void AlignedOrder::reshape(const BatchShape& shape) {
  assert(dealt_ == 0 && shape.tokens > 0 && shape.tokens <= rows_.tokens);
  span_ = shape.tokens + 1;
  pieces_.limit = shape.segment_limit;
}

}  // namespace tg
