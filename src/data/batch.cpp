#include "data/batch.h"

#include <cassert>
#include <cstring>
#include <utility>
#include <vector>

namespace tg {
namespace {

// Returns the tokens before `begin` on which the byte counts of the tokens from `begin` on depend.
std::vector<TokenId> context_of(const ByteTable& table, const TokenOrder& order,
                                std::int64_t begin) {
  std::vector<TokenId> before;
  std::int64_t wanted = table.by_pairs() ? 0 : ByteCounter::context - 1;
  while (std::ssize(before) < std::min(begin, wanted)) {
    before.resize(static_cast<std::size_t>(std::min(begin, wanted)));
    order.read(begin - std::ssize(before), before);
    if (table.may_escape(before.front())) wanted = 2 * std::ssize(before);
  }
  return before;
}

// Counts the bytes of all tokens of the place but the first. The last token of a span is followed
// by the first token of the next span.
template <class Id>
std::int64_t count_targets(const TextBytes& bytes, const TokenOrder& order, const Place& place,
                           std::span<Id> tokens) {
  std::int64_t counted = 0;
  for (const auto& span : place.spans) {
    if (bytes.sidecar) {
      const int input = &span == &place.spans.front() ? 1 : 0;
      counted += sidecar_bytes(*bytes.sidecar, span.begin + input, span.tokens - input);
      continue;
    }
    const auto size = static_cast<std::size_t>(span.tokens);
    const std::span<const Id> counting = tokens.first(std::min(size + 1, tokens.size()));
    counted += count_bytes(*bytes.table, counting, context_of(*bytes.table, order, span.begin));
    tokens = tokens.subspan(size);
  }
  return counted;
}

template <class Id>
void read_spans(const TokenOrder& order, const Place& place, std::span<Id> out) {
  for (const auto& span : place.spans) {
    const auto size = static_cast<std::size_t>(span.tokens);
    order.read(span.begin, out.first(size));
    out = out.subspan(size);
  }
}

std::int64_t row_of(const BatchLayout& layout, std::int64_t inputs) {
  return layout.seq_len > 0 ? layout.seq_len : inputs;
}

void replace_buffer(const TokenOrder& order, std::int64_t segment_capacity,
                    const AllocateBatch& allocate, HostBatch& batch) {
  batch.id_bytes = order.id_bytes();
  auto buffer = allocate(HostBatch::stored(order.span_tokens() * batch.id_bytes, segment_capacity));
  std::copy_n(batch.buffer.get(), batch.tokens * batch.id_bytes, buffer.get());
  batch.buffer = std::move(buffer);
  batch.segment_capacity = segment_capacity;
}

void store_segments(const TokenOrder& order, const SegmentRule& rule, const AllocateBatch& allocate,
                    HostBatch& batch) {
  auto boundaries = segment_starts(batch.inputs(), batch.seq_len, rule);
  batch.segments = std::ssize(boundaries);
  batch.longest_segment = longest_segment(batch.seq_len, rule);
  if (batch.segments > batch.segment_capacity)
    replace_buffer(order, more_segments(batch.segments), allocate, batch);
  boundaries.resize(static_cast<std::size_t>(batch.segment_capacity + 1),
                    static_cast<std::int32_t>(batch.tokens - 1));
  std::memcpy(batch.buffer.get() + batch.boundaries_begin(), boundaries.data(),
              boundaries.size() * sizeof(std::int32_t));
}

}  // namespace

BatchBuffer allocate_on_heap(std::int64_t bytes) {
  return {new std::byte[static_cast<std::size_t>(bytes)],
          [](std::byte* buffer) { delete[] buffer; }};
}

void require_buffer(const TokenOrder& order, const BatchLayout& layout,
                    const AllocateBatch& allocate, HostBatch& batch) {
  if (batch.buffer) return;
  const auto inputs = order.span_tokens() - 1;
  const auto segments =
      layout.segments ? usual_segments(inputs, row_of(layout, inputs), *layout.segments) : 0;
  replace_buffer(order, segments, allocate, batch);
}

void fill(const TokenOrder& order, const std::optional<Place>& place, const BatchLayout& layout,
          const AllocateBatch& allocate, HostBatch& batch) {
  batch.tokens = 0;
  batch.segments = 0;
  batch.text_bytes = 0;
  if (!place) return;
  const auto size = place->tokens();
  batch.seq_len = row_of(layout, size - 1);
  assert(size > 1 && (size - 1) % batch.seq_len == 0);
  const SpanScope span(layout.spans, "read", batch.batch_index);
  std::visit(
      [&](auto tokens) {
        read_spans(order, *place, tokens);
        if (layout.bytes != nullptr)
          batch.text_bytes = count_targets(*layout.bytes, order, *place, tokens);
      },
      ids_at(batch.buffer.get(), size, batch.id_bytes));
  batch.tokens = size;
  if (layout.segments) store_segments(order, *layout.segments, allocate, batch);
}

bool OrderedSource::next(HostBatch& batch) {
  require_buffer(*order_, layout_, allocate_, batch);
  const auto place = order_->advance();
  batch.batch_index = rounds_++;
  batch.after = order_->state();
  fill(*order_, place, layout_, allocate_, batch);
  return place.has_value();
}

}  // namespace tg
