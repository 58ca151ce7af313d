#include "data/aligned_order.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"

namespace tg {

AlignedOrder::AlignedOrder(const TokenSource& source, const DocumentRows& rows,
                           const Pieces& pieces, int rank, int world_size)
    : RowsOrder(source, rows, pieces.bos_id, rank, world_size), pieces_(pieces) {
  // Throws if there is no round, since find_round() would search forever. Shorter rows and longer
  // pieces need no more documents.
  go_to(0);
  const auto needed = left_in_round();
  std::int64_t most = 0;
  bool any = false;
  do {
    any = any || document().tokens > 0;
    if (fill_round(needed)) {
      go_to(0);
      return;
    }
    most = std::max(most, std::ssize(round_));
  } while (document().shard > 0);
  if (!any) fail_without_documents();
  fail(ExitCode::bad_data,
       "{}: no shard is long enough for LOADER_ORDER=aligned (expected documents for {} rows of "
       "{} tokens, found at most {}); lower TRAIN_BATCH_TOKENS, raise SEGMENT_LIMIT or merge small "
       "shards",
       source_.pattern(), needed, rows_.tokens, most);
}

void AlignedOrder::find_round() {
  if (taken_ < round_.size()) return;
  const auto rows = left_in_round();
  try {
    for (;;) {
      const auto [begin, tokens, shard, whole] = document();
      if (fill_round(rows)) break;
      if (whole && first_warning(shard)) {
        log_warn_once(
            "{} is passed over: it has documents (BOS_ID={}) for {} rows of {} tokens, fewer than "
            "the {} that LOADER_ORDER=aligned reads at a time",
            source_.path(shard), bos_id_, std::ssize(round_), span_ - 1, rows);
      }
    }
    for (const auto& row : round_) refuse_many_pieces(row);
  } catch (...) {
    go_to(position_);
    throw;
  }
}

std::int64_t AlignedOrder::skip_rows(std::int64_t rows) {
  taken_ += static_cast<std::size_t>(rows);
  return round_[taken_ - 1].end;
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

const DocumentPlace& AlignedOrder::document() {
  if (!document_) document_ = scan_->next();
  return *document_;
}

void AlignedOrder::go_to(std::int64_t position) {
  constexpr int steps_ahead = 4;
  scan_ = std::make_unique<DocumentScan>(source_, bos_id_, position,
                                         steps_ahead * rows_.of_step * span_tokens());
  document_.reset();
  round_.clear();
  taken_ = 0;
}

void AlignedOrder::reshape(const BatchShape& shape) {
  RowsOrder::reshape(shape);
  pieces_.limit = shape.segment_limit;
}

}  // namespace tg
