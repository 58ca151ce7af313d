#include "data/batch.h"

#include <cassert>
#include <utility>

namespace tg {

TokenBuffer allocate_on_heap(std::int64_t tokens) {
  return {new std::uint16_t[static_cast<std::size_t>(tokens)],
          [](std::uint16_t* buffer) { delete[] buffer; }};
}

OrderedSource::OrderedSource(std::unique_ptr<TokenOrder> order, std::int64_t seq_len,
                             AllocateTokens allocate)
    : order_(std::move(order)), seq_len_(seq_len), allocate_(std::move(allocate)) {
  assert(seq_len_ > 0 && (order_->span_tokens() - 1) % seq_len_ == 0);
}

bool OrderedSource::next(HostBatch& batch) {
  const std::int64_t span = order_->span_tokens();
  if (!batch.buffer) batch.buffer = allocate_(span);
  const bool mine = order_->next({batch.buffer.get(), static_cast<std::size_t>(span)});
  batch.tokens = mine ? span : 0;
  batch.sequences = mine ? (span - 1) / seq_len_ : 0;
  batch.seq_len = seq_len_;
  batch.after = order_->state();
  return mine;
}

}  // namespace tg
