#include "data/batch.h"

#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

namespace tg {
namespace {

std::int64_t count_targets(const TextBytes& bytes, const TokenOrder& order, std::int64_t begin,
                           std::span<const std::uint16_t> tokens) {
  if (bytes.sidecar) return sidecar_bytes(*bytes.sidecar, begin + 1, std::ssize(tokens) - 1);
  const ByteTable& table = *bytes.table;
  std::vector<std::uint16_t> before;
  std::int64_t wanted = table.by_pairs() ? 0 : ByteCounter::context - 1;
  while (std::ssize(before) < std::min(begin, wanted)) {
    before.resize(static_cast<std::size_t>(std::min(begin, wanted)));
    order.read(begin - std::ssize(before), before);
    if (table.may_escape(before.front())) wanted = 2 * std::ssize(before);
  }
  return count_bytes(table, tokens, before);
}

}  // namespace

TokenBuffer allocate_on_heap(std::int64_t tokens) {
  return {new std::uint16_t[static_cast<std::size_t>(tokens)],
          [](std::uint16_t* buffer) { delete[] buffer; }};
}

void fill(const TokenOrder& order, const std::optional<Place>& place, const BatchLayout& layout,
          HostBatch& batch) {
  batch.tokens = 0;
  batch.seq_len = layout.seq_len;
  batch.text_bytes = 0;
  if (!place) return;
  assert(place->tokens > 1 && (place->tokens - 1) % layout.seq_len == 0);
  const SpanScope span(layout.spans, "read", batch.batch_index);
  const std::span tokens(batch.buffer.get(), static_cast<std::size_t>(place->tokens));
  order.read(place->begin, tokens);
  batch.tokens = place->tokens;
  if (layout.bytes != nullptr) {
    batch.text_bytes = count_targets(*layout.bytes, order, place->begin, tokens);
  }
}

OrderedSource::OrderedSource(std::unique_ptr<TokenOrder> order, const BatchLayout& layout,
                             AllocateTokens allocate)
    : order_(std::move(order)), layout_(layout), allocate_(std::move(allocate)) {}

void OrderedSource::reshape(const BatchShape& shape) {
  order_->resize(shape.tokens);
  layout_.seq_len = shape.seq_len;
}

bool OrderedSource::next(HostBatch& batch) {
  if (!batch.buffer) batch.buffer = allocate_(order_->span_tokens());
  const auto place = order_->advance();
  batch.batch_index = rounds_++;
  batch.after = order_->state();
  fill(*order_, place, layout_, batch);
  return place.has_value();
}

}  // namespace tg
