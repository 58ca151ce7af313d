#pragma once
// Micro-batches in host memory, and the sources that read them. A micro-batch of B sequences of T
// tokens has B * T + 1 tokens: the inputs x are all but the last, the targets y all but the first.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "base/span_log.h"
#include "config/batch_shape.h"
#include "data/segments.h"
#include "data/text_bytes.h"
#include "data/token_order.h"

namespace tg {

// Host memory for tokens, with the deleter of its allocator (heap, or pinned for a GPU).
using TokenBuffer = std::unique_ptr<std::uint16_t[], std::function<void(std::uint16_t*)>>;
using AllocateTokens = std::function<TokenBuffer(std::int64_t tokens)>;

TokenBuffer allocate_on_heap(std::int64_t tokens);

// Micro-batch in a host buffer. next() may exchange the buffer of the batch that it is passed, so
// that a source can fill buffers ahead; a caller that copies from a batch asynchronously must not
// pass it to next() before the copy is done.
struct HostBatch {
  TokenBuffer buffer;                 // empty before the first next()
  std::int64_t tokens = 0;            // B * T + 1; 0: no micro-batch for this rank
  std::int64_t seq_len = 0;           // T
  std::int64_t text_bytes = 0;        // bytes of the targets' text, if the layout counts them
  std::int64_t batch_index = 0;       // round of this source, from 0
  LoaderState after;                  // state to resume from after this batch
  std::int64_t segments = 0;          // in the inputs, if the layout has a rule
  std::int64_t longest_segment = 0;   // upper bound of the rule, tokens
  std::int64_t segment_capacity = 0;  // segments that the buffer can hold; 0: no rule

  // [B * T] each; overlapping views of the buffer.
  std::span<const std::uint16_t> inputs() const { return part(0); }
  std::span<const std::uint16_t> targets() const { return part(1); }

  // Offset, in uint16, of the segment boundaries: segment_capacity + 1 int32, aligned, after the
  // tokens. They are the beginning of each segment, then B * T, repeated to the end (empty
  // segments).
  std::int64_t boundaries_begin() const { return tokens + tokens % 2; }
  // Number of uint16 of the buffer in use; the static overload gives it for any sizes.
  std::int64_t stored() const { return stored(tokens, segment_capacity); }
  static std::int64_t stored(std::int64_t tokens, std::int64_t segment_capacity) {
    return segment_capacity == 0 ? tokens : tokens + tokens % 2 + 2 * (segment_capacity + 1);
  }

 private:
  std::span<const std::uint16_t> part(std::int64_t first) const {
    if (tokens == 0) return {};
    return {buffer.get() + first, static_cast<std::size_t>(tokens - 1)};
  }
};

// Describes how fill() reads a batch.
struct BatchLayout {
  std::int64_t seq_len;                   // T; 0: each batch is one row
  const TextBytes* bytes = nullptr;       // counts the targets' bytes; must outlive the source
  std::optional<SegmentRule> segments{};  // finds the inputs' segments
  SpanLog* spans = nullptr;               // receives a span per read; must outlive the source
};

// Allocates a buffer for the order's largest micro-batch if the batch has none.
void require_buffer(const TokenOrder& order, const BatchLayout& layout,
                    const AllocateTokens& allocate, HostBatch& batch);
// Reads the micro-batch at `place` into the batch's buffer, which has room for its tokens; replaces
// the buffer if it has no room for the segments. Without a place sets tokens to 0. Thread-safe for
// different batches.
void fill(const TokenOrder& order, const std::optional<Place>& place, const BatchLayout& layout,
          const AllocateTokens& allocate, HostBatch& batch);

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // Reads the next round. If the batch has a buffer, it must be from this source or its allocator.
  // Returns false if this rank has no micro-batch in the round; tokens is then 0, and `after` is
  // set. Throws what reading throws (bad_data, missing_input, io).
  virtual bool next(HostBatch& batch) = 0;
  virtual LoaderState state() const = 0;  // `after` of the last batch that next() returned
  virtual void restore(const LoaderState& state) = 0;
  // Changes the shape of later batches; only between two steps. See TokenOrder::resize().
  virtual void reshape(const BatchShape& shape) = 0;
  virtual std::int64_t span_tokens() const = 0;  // tokens that every buffer can hold
};

// Reads synchronously in next(), into the batch's own buffer.
class OrderedSource final : public BatchSource {
 public:
  OrderedSource(std::unique_ptr<TokenOrder> order, const BatchLayout& layout,
                AllocateTokens allocate = allocate_on_heap);

  bool next(HostBatch& batch) override;
  LoaderState state() const override { return order_->state(); }
  void restore(const LoaderState& state) override { order_->restore(state); }
  void reshape(const BatchShape& shape) override;
  std::int64_t span_tokens() const override { return order_->span_tokens(); }

 private:
  std::unique_ptr<TokenOrder> order_;
  BatchLayout layout_;
  AllocateTokens allocate_;
  std::int64_t rounds_ = 0;
};

}  // namespace tg
